// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/transport.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/node/segment.hpp>
#include <cleave/storage/wide.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// Collectives of ranks that share memory, in rounds that all ranks count alike. Every rank has two slots: in a round
/// it writes one of them and reads the slots that all ranks wrote in the previous round. A round begins when all ranks
/// have ended the previous one, so no slot is written while it is read. Long operands are split into parts that fit the
/// caches.
///
/// Reductions combine the values of the ranks in rank order, so the result does not depend on time, and is the same on
/// all ranks.
class node_group {
 public:
  /// The initial bytes of a slot, and the most that `reserve` allocates: enough to amortise synchronisation, and few
  /// enough to stay in the caches.
  static constexpr std::int64_t least_slot = tuned_size(64 << 10, 2 << 10), most_slot = tuned_size(1 << 20, 8 << 10);
  /// Up to this many bytes every rank reduces all of them; beyond, each reduces its slice, and the others fetch it.
  static constexpr std::int64_t reduced_by_all = tuned_size(16 << 10, 512);

  /// The bytes of a slot for operands of this many bytes: every rank has a part of it for each rank, and one for the
  /// reduced values, in lines of the cache. Operands that are longer than a part are split.
  static constexpr std::int64_t slot_for(std::int64_t bytes, int ranks) {
    return std::max(bytes, std::int64_t{128} * (ranks + 1));
  }

  /// Collective over the group, whose ranks are on one node. False on all ranks if they cannot share memory. `crowded`:
  /// see patience. `long_stores`: the stores for slots in collectives of long operands.
  [[gnu::cold]] bool make(const group& g, bool crowded, stores long_stores) {
    group_ = g;
    crowded_ = crowded;
    long_stores_ = long_stores;
    return make(slot_for(least_slot, size()));
  }
  /// Enlarges the slots for operands of this many bytes. Collective over the group; all ranks pass the same number.
  void reserve(std::int64_t bytes) {
    std::int64_t wanted = slot_bytes_;
    while (wanted < bytes && wanted < most_slot) wanted *= 2;
    if (wanted > slot_bytes_) make(wanted);
  }

  /// The stores for slots of an operand with this many bytes.
  stores slot_stores(std::int64_t bytes) const { return bytes < least_long ? stores::in_caches : long_stores_; }

  /// The faster stores for slots of long operands: cached or non-temporal. Cores that share a cache exchange data in
  /// it. Other cores are slow to read lines that are modified in another core's cache: on two Zen 4 cores that share
  /// none, a megabyte moves 3x faster through memory. Collective over the group, and the same on all ranks.
  [[gnu::cold]] stores faster_stores() {
    // Other programs disturb some of the tries.
    constexpr int tries = 32;
    auto mine = indexed_vector<char>::filled(slot_bytes_);
    double least[2] = {1e30, 1e30}, sums[2];
    for (int k = 0; k < tries; ++k) {
      const int here = core_here();
      int there = 0;
      std::memcpy(mine.data(), &here, sizeof here);
      const double begin = MPI_Wtime();
      copy_to_slot(slot(), mine.data(), slot_bytes_, k % 2 == 0 ? stores::in_caches : stores::non_temporal);
      const double written = MPI_Wtime();
      next_round();
      const double arrived = MPI_Wtime();
      std::memcpy(mine.data(), written_by((rank() + 1) % size()), as_size(slot_bytes_));
      const double time = MPI_Wtime() - arrived + written - begin;
      // Ranks that alternate on one core share its caches for a while.
      std::memcpy(&there, mine.data(), sizeof there);
      if (there != here) least[k % 2] = std::min(least[k % 2], time);
    }
    agree(least, sums, 2, MPI_DOUBLE, MPI_SUM, group_.handle);
    // Without a result, non-temporal stores: if they are the wrong choice, they cost less.
    return sums[0] < sums[1] ? stores::in_caches : stores::non_temporal;
  }

  /// `in` may be `out`.
  [[gnu::cold]] void all_reduce(const void* in, void* out, std::int64_t elements, element e, reduction how) {
    const std::int64_t bytes = elements * size_of(e);
    if (bytes == 0) return;
    traffic().collective(kind::all_reduce, size(), 2 * (size() - 1) * bytes / size());
    const operation by(how, e);
    if (bytes <= reduced_by_all) reduce_all(in, out, elements, by);
    else reduce_slices(as<char>(in), as<char>(out), elements, by, slot_stores(bytes));
  }

  /// The slice that this rank reduces of an operand, its reduction, and the end, when the ranks fetch the other slices.
  range slice_of(std::int64_t elements) const {
    const slices s{0, elements, size()};
    return {s.begin(rank()), s.begin(rank() + 1)};
  }
  [[gnu::cold]] void reduce_to_slices(const void* in, void* out, std::int64_t elements, element e, reduction how) {
    const slices s{0, elements, size()};
    const stores slots = slot_stores(elements * size_of(e));
    reduce_scatter(
        widest_slice(elements), [&](int r) { return s.count(r); },
        [&](int r, std::int64_t first, std::int64_t n, void* to) {
          const char* const from = element_at(in, s.begin(r) + first, e);
          if (to != from) copy_to_slot(to, from, n * size_of(e), r == rank() ? stores::in_caches : slots);
        },
        element_at(out, s.begin(rank()), e), e, how);
  }
  [[gnu::cold]] void gather_slices(void* out, std::int64_t elements, element e) {
    const slices s{0, elements, size()};
    const char* const own = element_at(out, s.begin(rank()), e);
    const stores slots = slot_stores(elements * size_of(e));
    gather(
        widest_slice(elements), s.count(rank()), size_of(e), [&](int r) { return s.count(r); },
        [&](std::int64_t first, std::int64_t n, void* to) {
          copy_to_slot(to, element_at(own, first, e), n * size_of(e), slots);
        },
        [&](int r, std::int64_t first, std::int64_t n, const void* from) {
          std::memcpy(element_at(out, s.begin(r) + first, e), from, as_size(n * size_of(e)));
        });
  }

  /// Every rank has one block for each rank. `give(r, first, n, to)` writes n elements of the block for rank r, from
  /// element `first` on, to memory that rank r reads; `take(r, first, n, from)` reads those of the block from rank r.
  /// Both are called for other ranks only. `given(r)` and `taken(r)` are the elements of the blocks, `widest` those of
  /// the longest of all ranks.
  template <class Given, class Taken, class Give, class Take>
  void exchange(std::int64_t widest, std::int64_t size_of_element, const Given& given, const Taken& taken,
                const Give& give, const Take& take) {
    const std::int64_t part = slot_bytes_ / size() / 64 * 64, n = std::max<std::int64_t>(part / size_of_element, 1);
    for (std::int64_t first = 0; first < widest + n; first += n) {
      for (int k = 1; k < size() && first < widest; ++k) {
        const int r = (rank() + k) % size();
        if (const std::int64_t m = std::min(given(r) - first, n); m > 0) give(r, first, m, slot() + r * part);
      }
      for (int k = 1; k < size() && first >= n; ++k) {
        const int r = (rank() + size() - k) % size();
        if (const std::int64_t m = std::min(taken(r) - (first - n), n); m > 0)
          take(r, first - n, m, written_by(r) + rank() * part);
      }
      if (first < widest) next_round();
    }
  }

  /// Every rank has one block, which all others read: `give(first, n, to)` and `take(r, first, n, from)` as above.
  template <class Taken, class Give, class Take>
  void gather(std::int64_t widest, std::int64_t mine, std::int64_t size_of_element, const Taken& taken,
              const Give& give, const Take& take) {
    const std::int64_t n = slot_bytes_ / size_of_element;
    for (std::int64_t first = 0; first < widest + n; first += n) {
      if (const std::int64_t m = std::min(mine - first, n); m > 0) give(first, m, slot());
      for (int k = 1; k < size() && first >= n; ++k) {
        const int r = (rank() + size() - k) % size();
        if (const std::int64_t m = std::min(taken(r) - (first - n), n); m > 0) take(r, first - n, m, written_by(r));
      }
      if (first < widest) next_round();
    }
  }

  /// Other ranks see the bytes from the next round on.
  static void copy_to_slot(void* slot, const void* from, std::int64_t bytes, stores how) {
    copy_run(slot, from, bytes, how);
    if (how == stores::non_temporal) finish_stores_non_temporal();
  }

  /// Every rank has one block for each rank; those for a rank are reduced there, in `out`. `give(r, first, n, to)` is
  /// as above, and is called for all ranks, this one among them.
  template <class Given, class Give>
  void reduce_scatter(std::int64_t widest, const Given& given, const Give& give, void* out, element e, reduction how) {
    const operation by(how, e);
    const std::int64_t part = slot_bytes_ / size() / 64 * 64, n = part / by.size;
    for (std::int64_t first = 0; first < widest + n; first += n) {
      for (int r = 0; r < size() && first < widest; ++r)
        if (const std::int64_t m = std::min(given(r) - first, n); m > 0 && (r != rank() || size() > 2))
          give(r, first, m, slot() + r * part);
      if (const std::int64_t m = std::min(given(rank()) - (first - n), n); first >= n && m > 0) {
        char* const into = element_at(out, first - n, e);
        const auto from = [&](int r) { return written_by(r) + rank() * part; };
        // Two values give the same result in both orders.
        if (size() == 2) give(rank(), first - n, m, into);
        else std::memcpy(into, from(0), as_size(m * by.size));
        for (int r = size() == 2 ? 0 : 1; r < size(); ++r)
          if (size() > 2 || r != rank()) by.combine(from(r), into, m);
      }
      if (first < widest) next_round();
    }
  }

 private:
  /// Below, synchronisation takes longer than the choice of stores can save.
  static constexpr std::int64_t least_long = 32 << 10;

  /// The reduction of elements: by MPI, so that plain calls of MPI give the same values.
  struct operation {
    MPI_Datatype type;
    MPI_Op op;
    std::int64_t size;

    operation(reduction how, element e)
        : type(reduced_datatype_of(how, e)), op(operation_of(how, e)), size(size_of(e)) {}
    void combine(const void* from, void* into, std::int64_t elements) const {
      check(MPI_Reduce_local(from, into, as_int(elements), type, op), "MPI_Reduce_local");
    }
  };

  /// Allocates slots of this size, if all ranks can share them; else changes nothing. Collective, so no rank still
  /// reads the previous memory.
  [[gnu::cold]] bool make(std::int64_t slot_bytes) {
    const std::int64_t counts = size() * std::int64_t{sizeof(shared_count)};
    if (!memory_.make(group_, segment_header + counts + 2 * size() * slot_bytes)) return false;
    slot_bytes_ = slot_bytes;
    round_ = 0;
    return true;
  }

  /// The first n elements of all ranks, reduced in rank order in parts that fit the caches. `put(first element, values,
  /// bytes)` stores each part.
  template <class From, class Put>
  void combine_in_order(const From& from, std::int64_t n, const operation& by, const Put& put) const {
    const std::int64_t part = combined_at_once / by.size;
    alignas(64) char sum[combined_at_once];
    for (std::int64_t done = 0; done < n; done += part) {
      const std::int64_t m = std::min(part, n - done);
      std::memcpy(sum, from(0, done), as_size(m * by.size));
      for (int r = 1; r < size(); ++r) by.combine(from(r, done), sum, m);
      put(done, sum, m * by.size);
    }
  }
  static constexpr std::int64_t combined_at_once = 16 << 10;

  int size() const { return group_.size; }
  int rank() const { return group_.rank; }
  shared_count& rounds_of(int r) const { return reinterpret_cast<shared_count*>(memory_.data() + segment_header)[r]; }
  char* slot(int r, std::int64_t round) const {
    char* const slots = memory_.data() + segment_header + size() * std::int64_t{sizeof(shared_count)};
    return slots + (2 * r + round % 2) * slot_bytes_;
  }
  /// The slot that this rank writes in this round, and the slots written by all ranks in the previous one.
  char* slot() const { return slot(rank(), round_); }
  const char* written_by(int r) const { return slot(r, round_ + 1); }

  [[gnu::cold]] void next_round() {
    rounds_of(rank()).set(++round_);
    for (int k = 1; k < size(); ++k) {
      const int r = (rank() + k) % size();
      patience p(group_.handle, crowded_);
      while (rounds_of(r).get() < round_) p.wait();
    }
  }

  [[gnu::cold]] void reduce_all(const void* in, void* out, std::int64_t elements, const operation& by) {
    const std::size_t bytes = as_size(elements * by.size);
    std::memcpy(slot(), in, bytes);
    next_round();
    // Two values give the same result in both orders.
    const int first = size() == 2 ? rank() : 0;
    if (first != rank()) std::memcpy(out, written_by(first), bytes);
    else if (in != out) std::memcpy(out, in, bytes);
    for (int r = 0; r < size(); ++r)
      if (r != first) by.combine(written_by(r), out, elements);
  }

  /// A pipeline of three stages over parts of the operand: slices are given to the ranks that reduce them, reduced, and
  /// fetched. A round has one stage of each of three consecutive parts.
  [[gnu::cold]] void reduce_slices(const char* in, char* out, std::int64_t elements, const operation& by, stores how) {
    const std::int64_t n = slot_bytes_ / (size() + 1) / 64 * 64 / by.size, part = n * size();
    const stores results = stores_of(elements * by.size);
    for (std::int64_t first = 0; first < elements + 2 * part; first += part) {
      if (first < elements) give_slices(in, cut(first, part, elements), by, how);
      if (const std::int64_t before = first - part; before >= 0 && before < elements)
        reduce_slice(in, out, cut(before, part, elements), by, part, how, results);
      if (const std::int64_t before = first - 2 * part; before >= 0)
        fetch_slices(out, cut(before, part, elements), by, part, results);
      if (first < elements + part) next_round();
    }
    finish_stores_non_temporal();
  }
  /// A part of an operand, which is divided into one slice for each rank.
  struct slices {
    std::int64_t first, elements;
    int ranks;

    std::int64_t begin(int r) const { return elements * r / ranks; }
    std::int64_t count(int r) const { return begin(r + 1) - begin(r); }
  };
  std::int64_t widest_slice(std::int64_t elements) const { return (elements + size() - 1) / size(); }
  slices cut(std::int64_t first, std::int64_t part, std::int64_t elements) const {
    return {first, std::min(part, elements - first), size()};
  }
  void give_slices(const char* in, const slices& s, const operation& by, stores how) {
    for (int r = 0; r < size(); ++r)
      if (r != rank())
        copy_to_slot(slot() + s.begin(r) * by.size, in + (s.first + s.begin(r)) * by.size, s.count(r) * by.size, how);
  }
  /// The reduced slice follows the given slices.
  void reduce_slice(const char* in, char* out, const slices& s, const operation& by, std::int64_t part, stores how,
                    stores results) {
    const std::int64_t n = s.count(rank()), at = s.begin(rank()) * by.size;
    const char* const own = in + s.first * by.size + at;
    char* const into = slot() + part * by.size;
    const auto from = [&](int r, std::int64_t first) {
      return (r == rank() ? own : written_by(r) + at) + first * by.size;
    };
    combine_in_order(from, n, by, [&](std::int64_t first, const char* sum, std::int64_t bytes) {
      copy_run(into + first * by.size, sum, bytes, how);
      copy_run(out + s.first * by.size + at + first * by.size, sum, bytes, results);
    });
    finish_stores_non_temporal();
  }
  void fetch_slices(char* out, const slices& s, const operation& by, std::int64_t part, stores results) {
    for (int k = 1; k < size(); ++k) {
      const int r = (rank() + k) % size();
      copy_run(out + (s.first + s.begin(r)) * by.size, written_by(r) + part * by.size, s.count(r) * by.size, results);
    }
  }

  group group_{};
  node_segment memory_{};
  bool crowded_ = false;
  stores long_stores_ = stores::in_caches;
  std::int64_t slot_bytes_ = 0, round_ = 0;
};

}}} // namespace cleave::v0::comm
