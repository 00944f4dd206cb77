// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/node/collectives.hpp>
#include <cleave/node/pipes.hpp>

#include <limits>

namespace cleave { inline namespace v0 { namespace comm {

/// The most ranks that count as one node; 0: all ranks that share memory. CLEAVE_NODE_RANKS in the environment sets it,
/// so that one machine can stand for several nodes.
inline int& node_ranks() {
  static int most = number_of_environment("CLEAVE_NODE_RANKS", 0);
  return most;
}

/// The transport between devices of a grid that share memory.
class node_transport final : public grid_transport {
 public:
  [[gnu::cold]] node_transport(const group& devices, store_setting setting) : devices_(devices.size) {
    MPI_Comm whole = MPI_COMM_NULL;
    check(MPI_Comm_split_type(devices.handle, MPI_COMM_TYPE_SHARED, devices.rank, MPI_INFO_NULL, &whole),
          "MPI_Comm_split_type");
    int rank = 0;
    check(MPI_Comm_rank(whole, &rank), "MPI_Comm_rank");
    crowded_ = patience::is_crowded(whole);
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
      long_stores_ = stores::non_temporal;
  }
  void release() override { MPI_Comm_free(&here_.handle); }

  /// All ranks of a group share memory for its collectives if they are on one node, else those on this node, if the
  /// group has equally many on each node.
  [[gnu::cold]] void join(kept_group& g, const group& all) override {
    find(g);
    int count = 0, first = g.ranks.size, index = 0;
    for (int r = g.ranks.size; r-- > 0;)
      if (g.in_link[r] >= 0) ++count, first = r, index += r < g.ranks.rank;
    owned<node_collectives> made(new node_collectives);
    bool joined = false;
    if (count == g.ranks.size) joined = made->make(g.ranks, crowded_, long_stores_);
    else if (are_equal(g.ranks, count) && count > 1)
      joined = made->make_across(g.ranks, count, first, index, crowded_, long_stores_);
    // For each rank of a group: the first rank on its node, if nodes reduce first.
    const bool agreed = is_alike(g.ranks, !joined ? -2 : made->reaches_all() ? -1 : first, all);
    g.made = std::move(made);
    if (joined && agreed) g.ranks.direct = g.made.get();
  }
  [[gnu::cold]] void* share(std::int64_t bytes) override {
    const bool shared = here_.size == devices_ && shared_.make(here_, segment_header + bytes);
    return shared ? shared_.data() + segment_header : nullptr;
  }
  [[gnu::cold]] void connect(kept_group& g) override {
    find(g);
    if (!asked_for_pipes_) has_pipes_ = here_.size > 1 && pipes_.make(here_, crowded_, long_stores_);
    asked_for_pipes_ = true;
    if (has_pipes_) g.ranks.link = &pipes_;
    g.ranks.in_link = g.in_link.data();
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
    if (known == not_measured && has_stores_non_temporal && here_.size > 1 && all.make(here_, false, stores::in_caches))
      known = measured() = all.faster_stores() == stores::non_temporal ? 1 : 0;
    return known == 1;
  }
  /// Whether a number is the same on all ranks of a group. Collective over the group.
  [[gnu::cold]] static bool are_equal(const group& g, int number) {
    int most[2];
    largest_of(g, number, -number, most);
    return most[0] == -most[1];
  }
  /// Whether all groups over the same axes have the same numbers in the same order. Collective over the grid.
  [[gnu::cold]] static bool is_alike(const group& g, int number, const group& all) {
    indexed_vector<int> mine = indexed_vector<int>::filled(2 * g.size, std::numeric_limits<int>::min()), most = mine;
    mine[g.rank] = number;
    mine[g.size + g.rank] = -number;
    comm::agree(mine.data(), most.data(), 2 * g.size, MPI_INT, MPI_MAX, all.handle);
    bool alike = true;
    for (int r = 0; r < g.size; ++r) alike = alike && most[r] == -most[g.size + r];
    return alike;
  }
  /// The maximum of each of two numbers over all ranks.
  [[gnu::cold]] static void largest_of(const group& g, int a, int b, int (&most)[2]) {
    const int mine[2] = {a, b};
    comm::agree(mine, most, 2, MPI_INT, MPI_MAX, g.handle);
  }
  /// For each rank of a group its rank on the node; -1 for ranks of other nodes.
  [[gnu::cold]] void find(kept_group& g) const {
    if (!g.in_link.empty()) return;
    indexed_vector<int> ranks;
    for (int r = 0; r < g.ranks.size; ++r) ranks.push_back(r);
    g.in_link = indexed_vector<int>::filled(g.ranks.size, -1);
    MPI_Group all = MPI_GROUP_NULL, near = MPI_GROUP_NULL;
    check(MPI_Comm_group(g.ranks.handle, &all), "MPI_Comm_group");
    check(MPI_Comm_group(here_.handle, &near), "MPI_Comm_group");
    check(MPI_Group_translate_ranks(all, g.ranks.size, ranks.data(), near, g.in_link.data()),
          "MPI_Group_translate_ranks");
    MPI_Group_free(&all);
    MPI_Group_free(&near);
    for (int& r : g.in_link)
      if (r == MPI_UNDEFINED) r = -1;
  }

  int devices_;
  group here_{};
  node_segment shared_{};
  node_pipes pipes_{};
  bool asked_for_pipes_ = false, has_pipes_ = false, crowded_ = false;
  stores long_stores_ = stores::in_caches;
};

/// Lets grids use shared memory.
inline constexpr transport_maker shared_memory{[] { node_ranks(); },
                                               [](const group& devices, store_setting stores) {
                                                 return owned<grid_transport>(new node_transport(devices, stores));
                                               }};

}}} // namespace cleave::v0::comm
