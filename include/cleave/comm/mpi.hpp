// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/storage/errors.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/type/element.hpp>

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <string>

// MPI behind 64-bit counts: one call if the count fits, else chunks, the same on every rank.

namespace cleave { inline namespace v0 { namespace comm {

// Not inlined: the sentence is needed once, and calls are many.
[[noreturn, gnu::noinline]] inline void fail(int code, const char* call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw mpi_error(wording::mpi_failed(call, std::string_view(text, as_size(length))), code);
}
/// Throws mpi_error if a call of MPI returned a failure.
inline void check(int code, const char* call) {
  if (code != MPI_SUCCESS) fail(code, call);
}

/// Whether a communicator comes from a session of MPI 4: MPI_Init, which all other communicators need, was never
/// called. MPI cannot list sessions, so the owner of such a communicator must keep the session. The two predefined
/// communicators are only compared with: without MPI_Init no call may take them, not even a query.
inline bool is_of_session([[maybe_unused]] MPI_Comm comm) {
#ifdef MPI_SESSION_NULL
  int begun = 0;
  MPI_Initialized(&begun);
  return begun == 0 && comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF;
#else
  return false;
#endif
}

/// Throws environment_error if MPI_Init was not called, or MPI_Finalize was, since calling MPI then would abort.
inline void require_mpi() {
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) raise<environment_error>(wording::finalised("MPI"));
  MPI_Initialized(&done);
  if (done == 0) raise<environment_error>(wording::not_initialised("MPI"));
}

/// The most elements that one call of MPI takes. Tests set it low.
inline std::int64_t& count_limit() {
#if MPI_VERSION >= 4
  static std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 16;
#else
  static std::int64_t limit = std::numeric_limits<int>::max();
#endif
  return limit;
}

/// The datatype of an element. bool is sent as a byte: MPI has no maximum of logicals.
inline MPI_Datatype datatype_of(element e) {
  switch (e) {
    case element::boolean:
    case element::u8: return MPI_UINT8_T;
    case element::i8: return MPI_INT8_T;
    case element::i32: return MPI_INT32_T;
    case element::u32: return MPI_UINT32_T;
    case element::i64: return MPI_INT64_T;
    case element::u64: return MPI_UINT64_T;
    case element::f32: return MPI_FLOAT;
    case element::f64: return MPI_DOUBLE;
    // MPI has no such types; comm/operation.hpp adds them.
    case element::bf16:
    case element::f16: return MPI_UINT16_T;
    case element::c64: return MPI_C_FLOAT_COMPLEX;
    case element::c128: return MPI_C_DOUBLE_COMPLEX;
    case element::none: break;
  }
  return MPI_BYTE;
}

/// A device, or a number of devices, as an int for MPI: no communicator has more ranks than an int can count.
constexpr int rank_number(std::int64_t device) { return as_int(device); }

class group_transport;
class message_link;

/// A communicator of devices that differ on some axes only. Each pointer, if set, selects another transport than MPI
/// for its kind of communication (comm/transport.hpp); callers make no other choice.
struct group {
  MPI_Comm handle = MPI_COMM_NULL;
  int size = 1;
  int rank = 0;
  /// Collectives, of all its ranks or of those on this node.
  group_transport* direct = nullptr;
  /// Messages to some ranks, and, for each rank of the group, its number there; -1: by MPI.
  message_link* link = nullptr;
  const int* in_link = nullptr;

  int rank_in_link(int r) const { return link == nullptr ? -1 : in_link[r]; }
};

/// One block of elements for each rank of a group, contiguous in memory unless an offset is given.
class rank_blocks {
 public:
  rank_blocks() = default;
  /// Blocks with these counts, each count in units of this many elements.
  explicit rank_blocks(const indexed_vector<std::int64_t>& counts, std::int64_t each = 1) {
    for (std::int64_t n : counts) append(n * each);
  }
  /// The same block for each of this many ranks.
  static rank_blocks repeated(std::int64_t elements, int ranks) {
    rank_blocks all;
    for (int r = 0; r < ranks; ++r) all.append_at(elements, 0);
    return all;
  }

  void append(std::int64_t elements) { append_at(elements, end_); }
  void append_at(std::int64_t elements, std::int64_t offset) {
    count_.push_back(elements);
    offset_.push_back(offset);
    end_ = offset + elements;
  }

  std::int64_t count(int rank) const { return count_[rank]; }
  std::int64_t offset(int rank) const { return offset_[rank]; }
  const indexed_vector<std::int64_t>& counts() const { return count_; }
  const indexed_vector<std::int64_t>& offsets() const { return offset_; }
  /// The end of the last block: the number of all elements if blocks are contiguous.
  std::int64_t end() const { return end_; }
  std::int64_t widest() const {
    std::int64_t most = 0;
    for (std::int64_t c : count_)
      if (c > most) most = c;
    return most;
  }
  bool uniform() const {
    for (std::int64_t c : count_)
      if (c != count_.front()) return false;
    return true;
  }

 private:
  indexed_vector<std::int64_t> count_{}, offset_{};
  std::int64_t end_ = 0;
};

// MPI 4 has a second version of every call, with 64-bit counts.
#if MPI_VERSION >= 4
using call_count = MPI_Count;
using call_offset = MPI_Aint;
#define CLEAVE_MPI_CALL(name) name##_c
#else
using call_count = int;
using call_offset = int;
#define CLEAVE_MPI_CALL(name) name
#endif

/// A count within the limit, in the type of MPI.
inline call_count as_count(std::int64_t n) { return static_cast<call_count>(n); }

/// Calls f(first, n) for every chunk of a range of elements that fits one call of MPI.
template <class F>
void for_each_call(std::int64_t elements, F&& f) {
  const std::int64_t limit = count_limit();
  for (std::int64_t first = 0; first < elements; first += limit)
    f(first, as_count(elements - first < limit ? elements - first : limit));
}

/// The counts and offsets of blocks in the types of MPI. Only for counts within the limit.
struct call_counts {
  indexed_vector<call_count> count{};
  indexed_vector<call_offset> offset{};

  call_counts() = default;
  explicit call_counts(const rank_blocks& blocks) {
    for (std::int64_t c : blocks.counts()) count.push_back(as_count(c));
    for (std::int64_t o : blocks.offsets()) offset.push_back(static_cast<call_offset>(o));
  }
};

/// The address of an element.
inline const char* element_at(const void* base, std::int64_t index, element e) {
  return as<char>(base) + index * size_of(e);
}
inline char* element_at(void* base, std::int64_t index, element e) { return as<char>(base) + index * size_of(e); }

/// Sends the elements of one rank to all ranks of a group, in place. `data` is memory that MPI can access.
inline void broadcast(const group& g, void* data, std::int64_t elements, element type, int root) {
  for_each_call(elements, [&](std::int64_t first, call_count n) {
    check(CLEAVE_MPI_CALL(MPI_Bcast)(element_at(data, first, type), n, datatype_of(type), root, g.handle), "MPI_Bcast");
  });
}
/// An all-reduce that is part of the set-up, and not counted as communication.
[[gnu::cold]] inline void agree(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op how, MPI_Comm among) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(mine, all, count, type, how, among, &request), "MPI_Iallreduce");
  check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

/// Runs an operation that allocates on some ranks and does not communicate once it allocates. Collective over a
/// communicator: one small MPI_Allreduce. Throws memory_error on all its ranks if one of them has not enough memory.
template <class F>
void allocate_on_all(MPI_Comm among, F&& allocate) {
  const bool allocated = finds_memory(allocate);
  int rank = -1, size = 1;
  if (!allocated) check(MPI_Comm_rank(among, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(among, &size), "MPI_Comm_size");
  int without = rank;
  if (size > 1) check(MPI_Allreduce(&rank, &without, 1, MPI_INT, MPI_MAX, among), "MPI_Allreduce");
  if (without >= 0) raise<memory_error>(wording::rank_without_memory(without));
}

}}} // namespace cleave::v0::comm
