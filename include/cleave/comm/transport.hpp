// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/environment.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/program/move_scratch.hpp>
#include <cleave/storage/box.hpp>
#include <cleave/storage/wide.hpp>

#include <cstdint>

// The transports of a grid. MPI is always there: it makes the communicators, and takes all that no other transport
// takes. Another transport, such as shared memory (node/transport.hpp), takes collectives of some groups and messages
// between some ranks. A grid asks for it once, and a step when it is bound; then each communicates in that one way.

namespace cleave { inline namespace v0 {

class grid_state;

namespace comm {

/// The transport between the devices of a grid. CLEAVE_TRANSPORT=auto or mpi in the environment sets it, or
/// transport_mode() = ... on a rank before a grid is constructed: if one rank says mpi, it holds for all.
enum class transport : std::uint8_t {
  /// Devices of one node through shared memory, all others by MPI.
  automatic,
  /// Calls of MPI only.
  mpi,
};

inline transport& transport_mode() {
  static transport mode = word_of_environment("CLEAVE_TRANSPORT", {"auto", "mpi"}) == "mpi" ? transport::mpi
                                                                                            : transport::automatic;
  return mode;
}

/// Whether communication that a plan overlaps with computation does overlap, or is waited for at once.
/// CLEAVE_OVERLAP=off in the environment sets it, or overlap_mode() = false on a rank before a grid is constructed: if
/// one rank says so, it holds for all. Values are the same, bit by bit.
inline bool& overlap_mode() {
  static bool mode = word_of_environment("CLEAVE_OVERLAP", {"on", "off"}) == "on";
  return mode;
}

/// The traffic of this thread without calls of MPI, counted like them: a collective counts as the call that it
/// replaces, a message counts on the receiver (docs/12-cost.md).
struct direct_traffic {
  std::int64_t bytes = 0, calls = 0, messages = 0;
  /// A hash of the collectives in their order.
  std::uint64_t order = 0;

  void collective(kind move, int ranks, std::int64_t moved) {
    bytes += moved;
    ++calls;
    order = ((order ^ underlying(move)) * 1099511628211u ^ static_cast<std::uint64_t>(ranks)) * 1099511628211u;
  }
};
inline direct_traffic& traffic() {
  static thread_local direct_traffic all;
  return all;
}

class bound_exchange;

/// Collectives of a group by another transport than MPI. It reaches all ranks of the group, or as many of them on each
/// node; then `across` is the communicator of the ranks that have the same number on each node.
class group_transport {
 public:
  group_transport() = default;
  group_transport(const group_transport&) = delete;
  group_transport& operator=(const group_transport&) = delete;
  virtual ~group_transport() = default;

  /// Whether it reaches all ranks of the group.
  bool reaches_all() const { return across == MPI_COMM_NULL; }
  /// A move over the axes of the group, of host memory; null: it goes by MPI. Blocks nest. Collective over the group.
  virtual owned<bound_exchange> bind(kind move, grid_state& grid, const transfer& t) = 0;
  /// Prepares for operands of this many bytes. Collective over the group; all ranks pass the same number.
  virtual void reserve(std::int64_t bytes) = 0;
  /// `in` may be `out`.
  virtual void all_reduce(const void* in, void* out, std::int64_t elements, element e, reduction how) = 0;
  /// The parts of an all-reduce of all nodes that are its own: each rank reduces its slice on its node, and, when MPI
  /// has reduced the slices across the nodes, the ranks of a node fetch them from each other.
  virtual range slice_of(std::int64_t elements) const = 0;
  virtual void reduce_to_slices(const void* in, void* out, std::int64_t elements, element e, reduction how) = 0;
  virtual void gather_slices(void* out, std::int64_t elements, element e) = 0;
  /// Frees its communicators. Not after MPI_Finalize.
  virtual void release() = 0;

  MPI_Comm across = MPI_COMM_NULL;
};

/// Whether another transport than MPI has all collectives of a group.
inline bool is_direct(const group& g) { return g.direct != nullptr && g.direct->reaches_all(); }

/// Messages to and from some ranks by another transport than MPI, for all groups of a grid, so that a wait for some of
/// them also moves the others. Ranks have numbers of the link.
class message_link {
 public:
  message_link() = default;
  message_link(const message_link&) = delete;
  message_link& operator=(const message_link&) = delete;
  virtual ~message_link() = default;

  /// A message to a rank: memory, or a box in it, which is packed during the transfer. `open` is incremented now, and
  /// decremented when all of it was sent.
  virtual void send(int to, const void* from, std::int64_t bytes, const box_copy* box, std::int64_t element_bytes,
                    std::int64_t& open) = 0;
  /// A message from a rank, to memory or to a box in it. `open` is incremented now, and decremented when all of it has
  /// arrived.
  virtual void receive(int from, void* into, std::int64_t bytes, const box_copy* box, std::int64_t element_bytes,
                       std::int64_t& open) = 0;
  /// Moves as much as is possible now; returns whether anything moved.
  virtual bool progress() = 0;
  /// Waits until no message of `open` is left.
  virtual void wait(const std::int64_t& open) = 0;
};

/// A communicator of some devices of a grid, and the state of another transport for it. Its address is stable.
struct kept_group {
  group ranks{};
  owned<group_transport> made{};
  /// For each rank its number in the link, or -1. Empty: not asked for yet.
  indexed_vector<int> in_link{};
  /// For kernels of the user.
  MPI_Comm of_kernels = MPI_COMM_NULL;

  void release() {
    for (MPI_Comm* c : {&of_kernels, &ranks.handle})
      if (*c != MPI_COMM_NULL) MPI_Comm_free(c);
    if (made) made->release();
  }
};

/// A transport of the devices of one grid.
class grid_transport {
 public:
  grid_transport() = default;
  grid_transport(const grid_transport&) = delete;
  grid_transport& operator=(const grid_transport&) = delete;
  virtual ~grid_transport() = default;

  /// Sets the collectives of a group, if it has them. Collective over the grid, whose devices are `all`: where one
  /// group has none, others over the same axes have none either, so that values replicated over other axes have the
  /// same bits everywhere.
  virtual void join(kept_group& g, const group& all) = 0;
  /// Zeroed memory that all devices of the grid have, while this lives; null if they share none. Called once.
  /// Collective over the grid.
  virtual void* share(std::int64_t bytes) = 0;
  /// Sets the link of a group, if it has one. First call: collective over the grid.
  virtual void connect(kept_group& g) = 0;
  /// Frees its communicators. Not after MPI_Finalize.
  virtual void release() = 0;
};

/// How a grid makes its other transport.
struct transport_maker {
  /// Reads its settings from the environment. Throws environment_error.
  void (*read_environment)();
  /// For these devices. `stores`: see store_mode(), the same on all ranks. Collective over the devices.
  owned<grid_transport> (*make)(const group& devices, store_setting stores);
};

} // namespace comm
}} // namespace cleave::v0
