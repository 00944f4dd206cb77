// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/comm/node_pipes.hpp>

#include <memory>
#include <utility>

namespace cleave::inline v0::comm {

/// A communicator of some devices of a grid, and what they share.
struct kept_group {
  group ranks{};
  std::unique_ptr<node_group> together{};
  indexed_vector<int> on_node{};
};

/// The devices of a grid that share memory with this one.
class grid_node {
 public:
  /// Collective over the devices.
  explicit grid_node(const group& devices) {
    check(MPI_Comm_split_type(devices.handle, MPI_COMM_TYPE_SHARED, devices.rank, MPI_INFO_NULL, &here_.handle),
          "MPI_Comm_split_type");
    describe();
    if (node_ranks() == 0) return;
    MPI_Comm whole = here_.handle;
    const int code = MPI_Comm_split(whole, here_.rank / node_ranks(), here_.rank, &here_.handle);
    MPI_Comm_free(&whole);
    check(code, "MPI_Comm_split");
    describe();
  }
  grid_node(const grid_node&) = delete;
  grid_node& operator=(const grid_node&) = delete;
  ~grid_node() {
    if (here_.handle != MPI_COMM_NULL) MPI_Comm_free(&here_.handle);
  }
  /// After MPI_Finalize there is nothing to free.
  void forget() { here_.handle = MPI_COMM_NULL; }

  /// Lets the ranks of a group use memory for their collectives if all of them are on this node. Collective over the
  /// group.
  void join(kept_group& g) const {
    find(g);
    for (int r : g.on_node)
      if (r < 0) return;
    g.together = node_group::shared_by(g.ranks);
    g.ranks.together = g.together.get();
  }
  /// Lets the ranks of a group use memory for messages. Collective over the devices of the grid at the first time.
  void connect(kept_group& g) {
    find(g);
    if (!asked_for_pipes_ && here_.size > 1) pipes_ = node_pipes::shared_by(here_);
    asked_for_pipes_ = true;
    g.ranks.pipes = pipes_.get();
    g.ranks.on_node = g.on_node.data();
  }

 private:
  void describe() {
    check(MPI_Comm_size(here_.handle, &here_.size), "MPI_Comm_size");
    check(MPI_Comm_rank(here_.handle, &here_.rank), "MPI_Comm_rank");
  }
  /// Which rank of the node each rank of a group is; -1 for ranks of other nodes.
  void find(kept_group& g) const {
    if (!g.on_node.empty()) return;
    indexed_vector<int> ranks;
    for (int r = 0; r < g.ranks.size; ++r) ranks.push_back(r);
    g.on_node = indexed_vector<int>::filled(g.ranks.size, -1);
    MPI_Group all = MPI_GROUP_NULL, near = MPI_GROUP_NULL;
    check(MPI_Comm_group(g.ranks.handle, &all), "MPI_Comm_group");
    check(MPI_Comm_group(here_.handle, &near), "MPI_Comm_group");
    check(MPI_Group_translate_ranks(all, g.ranks.size, ranks.data(), near, g.on_node.data()),
          "MPI_Group_translate_ranks");
    MPI_Group_free(&all);
    MPI_Group_free(&near);
    for (int& r : g.on_node)
      if (r == MPI_UNDEFINED) r = -1;
  }

  group here_{};
  std::unique_ptr<node_pipes> pipes_{};
  bool asked_for_pipes_ = false;
};

} // namespace cleave::inline v0::comm
