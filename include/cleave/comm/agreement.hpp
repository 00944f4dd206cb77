// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/comm/patience.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 { namespace comm {

/// The message of a device to all others in checked mode.
struct small_message {
  static constexpr std::size_t most_words = 63;

  /// Where in the program it is told.
  std::uint64_t place = 0, words[most_words] = {};
};

/// A hash of FNV's kind, a word at a time.
struct word_hash {
  std::uint64_t value = 0xCBF29CE484222325u;

  template <class T>
  word_hash& mix(const T& x) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      for (const char c : std::string_view(x)) mix(static_cast<unsigned char>(c));
    } else if constexpr (requires { x.bits(); }) {
      mix(x.bits());
    } else if constexpr (std::is_floating_point_v<T>) {
      mix(std::bit_cast<std::uint64_t>(double{x}));
    } else {
      value = (value ^ static_cast<std::uint64_t>(x)) * 0x100000001B3u ^ value >> 29;
    }
    return *this;
  }
  template <class... T>
  void mix_all(const T&... all) {
    (mix(all), ...);
  }
};

/// A duplicate of a communicator. Collective over its ranks. With a limit, in seconds, throws absent_error if some of
/// them do not come in time; with 0 it waits for them. Ranks may have different limits.
[[gnu::cold]] inline MPI_Comm duplicated(MPI_Comm of, double limit) {
  struct duplication {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  // MPI may still write there after an error, so it is freed on success only.
  auto* const pending = new duplication;
  check(MPI_Comm_idup(of, &pending->made, &pending->request), "MPI_Comm_idup");
  if (limit <= 0) check(MPI_Wait(&pending->request, MPI_STATUS_IGNORE), "MPI_Wait");
  const double begin = MPI_Wtime();
  while (pending->request != MPI_REQUEST_NULL) {
    int done = 0;
    check(MPI_Test(&pending->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) break;
    if (MPI_Wtime() - begin > limit)
      raise<absent_error>(wording::grid_not_everywhere(static_cast<std::int64_t>(limit)));
    std::this_thread::yield();
  }
  const MPI_Comm made = pending->made;
  delete pending;
  return made;
}

/// Small messages by which the devices of a grid detect in time that one of them makes a different call. They go
/// through memory that the devices share if all are on one node; else they use a communicator of their own, so that
/// they match no message of a plan.
class agreement {
 public:
  /// The bytes of the memory that devices share.
  static constexpr std::int64_t shared_bytes(int devices) { return devices * std::int64_t{sizeof(turns)}; }

  /// Duplicates the communicator. `shared`: zeroed memory that all devices have, or null. Collective.
  agreement(const group& devices, void* shared) : size_(devices.size), rank_(devices.rank), turns_(as<turns>(shared)) {
    check(MPI_Comm_dup(devices.handle, &handle_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    crowded_ = patience::is_crowded(handle_);
    received_ = indexed_vector<small_message>::filled(size_);
    requests_ = indexed_vector<MPI_Request>::filled(2 * size_, MPI_REQUEST_NULL);
    done_ = indexed_vector<int>::filled(2 * size_);
  }
  agreement(const agreement&) = delete;
  agreement& operator=(const agreement&) = delete;
  ~agreement() {
    if (handle_ == MPI_COMM_NULL) return;
    // A message that was never received belongs to a device that gave up waiting for this one. Such a device keeps its
    // communicators: freeing is collective, and MPICH aborts if a communicator has pending messages. A message that is
    // still in transit is not seen.
    int left = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, handle_, &left, MPI_STATUS_IGNORE) == MPI_SUCCESS && left == 0)
      MPI_Comm_free(&handle_);
  }
  /// Frees nothing: after MPI_Finalize there is nothing to free, and a broken grid keeps its communicators.
  void forget() { handle_ = MPI_COMM_NULL; }

  /// Gives the first words of a message to all devices and takes those of all, which `of` returns until the next one.
  /// Returns the first device from which nothing came within `limit` seconds; -1: all came. Communication: one message
  /// between every two devices, so that every device knows which one is missing.
  [[gnu::cold]] int exchange(const small_message& mine, std::size_t words, double limit) {
    const std::size_t bytes = (words + 1) * sizeof(std::uint64_t);
    const double begin = MPI_Wtime();
    const auto is_late = [&](const patience& p) { return p.yields() && MPI_Wtime() - begin > limit; };
    if (turns_ != nullptr) {
      std::memcpy(static_cast<void*>(&turns_of(rank_).of[++round_ % 2]), &mine, bytes);
      turns_of(rank_).round.set(round_);
      for (int r = 0; r < size_; ++r)
        for (patience p(handle_, crowded_); turns_of(r).round.get() < round_; p.wait())
          if (is_late(p)) return r;
      return -1;
    }
    std::memcpy(static_cast<void*>(&received_[rank_]), &mine, bytes);
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      check(MPI_Irecv(&received_[r], as_int(sizeof mine), MPI_BYTE, r, tag, handle_, &requests_[r]), "MPI_Irecv");
      check(MPI_Isend(&received_[rank_], as_int(bytes), MPI_BYTE, r, tag, handle_, &requests_[r + size_]), "MPI_Isend");
    }
    for (patience p(handle_, crowded_);; p.wait()) {
      int some = 0;
      check(MPI_Testsome(2 * size_, requests_.data(), &some, done_.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
      if (std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; }))
        return -1;
      if (is_late(p)) return give_up();
    }
  }
  const small_message& of(int rank) const {
    return turns_ != nullptr ? turns_of(rank).of[round_ % 2] : received_[rank];
  }

 private:
  /// The messages of one device in shared memory. It writes none while another device reads it: it writes the one after
  /// the next when it has the next of all.
  struct turns {
    shared_count round;
    alignas(64) small_message of[2];
  };

  turns& turns_of(int rank) const { return turns_[rank]; }
  [[gnu::cold]] int give_up() {
    int missing = 0;
    for (int r = size_; r-- > 0;)
      if (requests_[r] != MPI_REQUEST_NULL) missing = r;
    // Messages may still arrive after this object is destroyed, so their memory is never freed.
    for (MPI_Request& r : requests_)
      if (r != MPI_REQUEST_NULL) MPI_Cancel(&r), MPI_Request_free(&r);
    new indexed_vector<small_message>(std::move(received_));
    return missing;
  }

  static constexpr int tag = 2;
  MPI_Comm handle_ = MPI_COMM_NULL;
  int size_, rank_;
  bool crowded_ = false;
  turns* turns_;
  std::int64_t round_ = 0;
  indexed_vector<small_message> received_{};
  indexed_vector<MPI_Request> requests_{};
  indexed_vector<int> done_{};
};

}}} // namespace cleave::v0::comm
