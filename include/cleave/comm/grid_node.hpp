// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/comm/node_pipes.hpp>

#include <limits>

namespace cleave { inline namespace v0 { namespace comm {

/// A communicator of some devices of a grid, and the memory that they share. Its address is stable.
struct kept_group {
  group ranks{};
  /// Its ranks on this node, if it spans several nodes.
  group near{};
  /// For all its ranks, or for those on this node.
  node_group together{};
  indexed_vector<int> on_node{};
  /// For kernels of the user.
  MPI_Comm of_kernels = MPI_COMM_NULL;

  void release() {
    for (MPI_Comm* c : {&of_kernels, &ranks.handle, &ranks.across, &near.handle})
      if (*c != MPI_COMM_NULL) MPI_Comm_free(c);
  }
};

/// The devices of a grid that share memory with this one.
class grid_node {
 public:
  grid_node() = default;
  grid_node(const grid_node&) = delete;
  grid_node& operator=(const grid_node&) = delete;

  bool made() const { return here_.handle != MPI_COMM_NULL; }
  /// How many devices it has, and whether there are more of them than cores.
  int size() const { return here_.size; }
  bool crowded() const { return crowded_; }
  /// Collective over the devices. `setting`: see store_mode(), the same on all ranks.
  [[gnu::cold]] void make(const group& devices, store_setting setting) {
    MPI_Comm whole = MPI_COMM_NULL;
    check(MPI_Comm_split_type(devices.handle, MPI_COMM_TYPE_SHARED, devices.rank, MPI_INFO_NULL, &whole),
          "MPI_Comm_split_type");
    int rank = 0, size = 1;
    check(MPI_Comm_rank(whole, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(whole, &size), "MPI_Comm_size");
    crowded_ = patience::is_crowded(size);
    const int code = MPI_Comm_split(whole, node_ranks() == 0 ? 0 : rank / node_ranks(), rank, &here_.handle);
    MPI_Comm_free(&whole);
    check(code, "MPI_Comm_split");
    check(MPI_Comm_size(here_.handle, &here_.size), "MPI_Comm_size");
    check(MPI_Comm_rank(here_.handle, &here_.rank), "MPI_Comm_rank");
    // Ranks may be bound to different numbers of cores.
    int most[2];
    largest_of(here_, crowded_, measured(), most);
    crowded_ = most[0] != 0;
    if (setting == store_setting::streaming || (setting == store_setting::automatic && !crowded_ && streams(most[1])))
      long_stores_ = stores::past_caches;
  }
  /// Frees the communicator. After MPI_Finalize this does nothing.
  void release() {
    if (made()) MPI_Comm_free(&here_.handle);
  }

  /// Lets the ranks of a group use shared memory for their collectives: all ranks if they are on one node, else those
  /// on this node, if the group has equally many on each node. Collective over the group.
  [[gnu::cold]] void join(kept_group& g) const {
    find(g, here_.handle);
    int count = 0, first = g.ranks.size, index = 0;
    for (int r = g.ranks.size; r-- > 0;)
      if (g.on_node[r] >= 0) ++count, first = r, index += r < g.ranks.rank;
    if (count != g.ranks.size) return divide(g, count, first, index);
    if (g.together.make(g.ranks, crowded_, long_stores_)) g.ranks.together = &g.together;
  }
  /// Undoes `join` if groups over the same axes would combine in different orders, so that values replicated over other
  /// axes have the same bits everywhere. Collective over the devices of the grid.
  [[gnu::cold]] static void agree(kept_group& g, const group& devices) {
    // For each rank of a group: the first rank on its node, if nodes reduce first.
    int first = 0;
    while (first < g.ranks.rank && (g.ranks.inside == nullptr || g.on_node[first] < 0)) ++first;
    const int own = g.ranks.together != nullptr ? -1 : g.ranks.inside != nullptr ? first : -2;
    const int size = g.ranks.size;
    indexed_vector<int> mine = indexed_vector<int>::filled(2 * size, std::numeric_limits<int>::min()), most = mine;
    mine[g.ranks.rank] = own;
    mine[size + g.ranks.rank] = -own;
    comm::agree(mine.data(), most.data(), 2 * size, MPI_INT, MPI_MAX, devices.handle);
    for (int r = 0; r < size; ++r)
      if (most[r] != -most[size + r]) g.ranks.together = g.ranks.inside = nullptr;
  }
  /// Lets the ranks of a group use shared memory for messages. First call: collective over the grid's devices.
  [[gnu::cold]] void connect(kept_group& g) {
    find(g, here_.handle);
    if (!asked_for_pipes_) has_pipes_ = here_.size > 1 && pipes_.make(here_, crowded_, long_stores_);
    asked_for_pipes_ = true;
    if (has_pipes_) g.ranks.pipes = &pipes_;
    g.ranks.on_node = g.on_node.data();
  }

 private:
  /// Whether non-temporal stores are faster for long operands between the ranks of a node, as measured once by this
  /// process; else `not_measured`.
  static constexpr int not_measured = 2;
  static int& measured() {
    static int answer = not_measured;
    return answer;
  }
  /// `known`: the largest answer of all ranks. If one of them has no answer, all measure. Collective over the node.
  [[gnu::cold]] bool streams(int known) const {
    node_group all;
    if (known == not_measured && has_stores_past_caches && here_.size > 1 && all.make(here_, false, stores::in_caches))
      known = measured() = all.faster_stores() == stores::past_caches ? 1 : 0;
    return known == 1;
  }
  [[gnu::cold]] void divide(kept_group& g, int count, int first, int index) const {
    int most[2];
    largest_of(g.ranks, count, -count, most);
    if (count == 1 || most[0] != -most[1]) return;
    check(MPI_Comm_split(g.ranks.handle, first, g.ranks.rank, &g.near.handle), "MPI_Comm_split");
    check(MPI_Comm_split(g.ranks.handle, index, g.ranks.rank, &g.ranks.across), "MPI_Comm_split");
    g.near.size = count;
    g.near.rank = index;
    largest_of(g.ranks, g.together.make(g.near, crowded_, long_stores_) ? 0 : 1, 0, most);
    if (most[0] == 0) g.ranks.inside = &g.together;
  }
  /// The maximum of each of two numbers over all ranks.
  [[gnu::cold]] static void largest_of(const group& g, int a, int b, int (&most)[2]) {
    const int mine[2] = {a, b};
    comm::agree(mine, most, 2, MPI_INT, MPI_MAX, g.handle);
  }
  /// For each rank of a group its rank on the node; -1 for ranks of other nodes.
  [[gnu::cold]] static void find(kept_group& g, MPI_Comm node) {
    if (!g.on_node.empty()) return;
    indexed_vector<int> ranks;
    for (int r = 0; r < g.ranks.size; ++r) ranks.push_back(r);
    g.on_node = indexed_vector<int>::filled(g.ranks.size, -1);
    MPI_Group all = MPI_GROUP_NULL, near = MPI_GROUP_NULL;
    check(MPI_Comm_group(g.ranks.handle, &all), "MPI_Comm_group");
    check(MPI_Comm_group(node, &near), "MPI_Comm_group");
    check(MPI_Group_translate_ranks(all, g.ranks.size, ranks.data(), near, g.on_node.data()),
          "MPI_Group_translate_ranks");
    MPI_Group_free(&all);
    MPI_Group_free(&near);
    for (int& r : g.on_node)
      if (r == MPI_UNDEFINED) r = -1;
  }

  group here_{};
  node_pipes pipes_{};
  bool asked_for_pipes_ = false, has_pipes_ = false, crowded_ = false;
  stores long_stores_ = stores::in_caches;
};

}}} // namespace cleave::v0::comm
