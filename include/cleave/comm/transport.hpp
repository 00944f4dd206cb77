// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/environment.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 { namespace comm {

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

/// The most ranks that count as one node; 0: all ranks that share memory. CLEAVE_NODE_RANKS in the environment sets it,
/// so that one machine can stand for several nodes.
inline int& node_ranks() {
  static int most = number_of_environment("CLEAVE_NODE_RANKS", 0);
  return most;
}

/// The traffic of this thread through shared memory, counted like calls of MPI: a collective counts as the call that it
/// replaces, a message counts on the receiver (docs/12-cost.md).
struct node_traffic {
  std::int64_t bytes = 0, calls = 0, messages = 0;
  /// A hash of the collectives in their order.
  std::uint64_t order = 0;

  void collective(std::uint64_t what, int ranks, std::int64_t moved) {
    bytes += moved;
    ++calls;
    order = ((order ^ what) * 1099511628211u ^ static_cast<std::uint64_t>(ranks)) * 1099511628211u;
  }
};
inline node_traffic& traffic() {
  static thread_local node_traffic all;
  return all;
}

}}} // namespace cleave::v0::comm
