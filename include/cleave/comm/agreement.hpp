// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/comm/mpi.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

namespace cleave { inline namespace v0 { namespace comm {

/// How a rank describes a call that all ranks must make.
struct call_record {
  std::uint64_t plan = 0, sizes = 0;
  char text[112] = "";

  call_record(std::string_view name, std::uint64_t which, std::uint64_t extents) : plan(which), sizes(extents) {
    const std::size_t n = name.size() < sizeof text - 1 ? name.size() : sizeof text - 1;
    std::memcpy(text, name.data(), n);
  }
  call_record() = default;
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

/// Small messages by which the devices of a grid detect in time that one of them makes a different call. They use a
/// communicator of their own, so that they match no message of a plan.
class agreement {
 public:
  using bytes = indexed_vector<unsigned char>;

  /// Duplicates the communicator. Collective.
  explicit agreement(MPI_Comm devices) {
    check(MPI_Comm_dup(devices, &handle_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_size(handle_, &size_), "MPI_Comm_size");
    check(MPI_Comm_rank(handle_, &rank_), "MPI_Comm_rank");
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

  int size() const { return size_; }
  int rank() const { return rank_; }

  /// Throws agreement_error on all devices if they do not make the same call.
  [[gnu::cold]] void same_call(const call_record& mine, double limit) {
    const bytes& all = exchange(&mine, sizeof mine, limit, mine.text);
    const auto record_of = [&](int rank) {
      call_record r;
      std::copy_n(all.data() + rank * std::int64_t{sizeof r}, sizeof r, reinterpret_cast<unsigned char*>(&r));
      return r;
    };
    const call_record first = record_of(0);
    for (int r = 1; r < size_; ++r) {
      const call_record other = record_of(r);
      if (other.plan == first.plan && other.sizes == first.sizes && std::strcmp(other.text, first.text) == 0) continue;
      const bool extents = other.plan == first.plan && other.sizes != first.sizes;
      raise<agreement_error>(
          wording::calls_differ(0, first.text, r,
                                extents ? std::string(other.text) + ", with other extents" : std::string(other.text)));
    }
  }

  /// The bytes of all devices, in device order; all devices pass equally many. Throws absent_error with the first
  /// device from which nothing came within `limit` seconds; the sentence names `call`. Communication: one message
  /// between every two devices, so that every device knows which one is missing.
  [[gnu::cold]] const bytes& exchange(const void* mine, std::size_t length, double limit, std::string_view call) {
    const unsigned char* const first = as<unsigned char>(mine);
    const int n = as_int(length);
    sent_.assign(first, first + length);
    received_ = bytes::filled(std::int64_t{n} * size_);
    requests_ = indexed_vector<MPI_Request>::filled(2 * size_, MPI_REQUEST_NULL);
    for (int r = 0; r < size_; ++r) {
      unsigned char* const from = received_.data() + std::int64_t{n} * r;
      if (r == rank_) {
        std::copy_n(first, length, from);
        continue;
      }
      check(MPI_Irecv(from, n, MPI_BYTE, r, tag, handle_, &requests_[r]), "MPI_Irecv");
      check(MPI_Isend(sent_.data(), n, MPI_BYTE, r, tag, handle_, &requests_[r + size_]), "MPI_Isend");
    }
    wait(limit, call);
    return received_;
  }

 private:
  [[gnu::cold]] void wait(double limit, std::string_view call) {
    const double begin = MPI_Wtime();
    indexed_vector<int> done(requests_.size());
    for (;;) {
      int some = 0;
      check(MPI_Testsome(2 * size_, requests_.data(), &some, done.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
      if (std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; })) return;
      if (MPI_Wtime() - begin > limit) break;
      std::this_thread::yield();
    }
    int missing = 0;
    for (int r = size_; r-- > 0;)
      if (requests_[r] != MPI_REQUEST_NULL) missing = r;
    // Messages may still arrive after this object is destroyed, so their memory is never freed.
    for (MPI_Request& r : requests_)
      if (r != MPI_REQUEST_NULL) MPI_Cancel(&r), MPI_Request_free(&r);
    new bytes(std::move(sent_));
    new bytes(std::move(received_));
    raise<absent_error>(wording::rank_missing(missing, static_cast<std::int64_t>(limit), call));
  }

  static constexpr int tag = 2;
  MPI_Comm handle_ = MPI_COMM_NULL;
  int size_ = 1, rank_ = 0;
  bytes sent_{}, received_{};
  indexed_vector<MPI_Request> requests_{};
};

}}} // namespace cleave::v0::comm
