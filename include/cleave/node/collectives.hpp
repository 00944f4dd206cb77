// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/node/group.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// A collective of ranks that share memory, bound to sizes. Boxes are packed and unpacked on their way, so it needs no
/// scratch memory.
class node_move final : public bound_exchange {
 public:
  /// Collective over the group `g`, which has `together` for its collectives.
  [[gnu::cold]] node_move(group_transport& by, node_group& together, const group& g, kind move, grid_state& grid,
                          const transfer& t)
      : by_(by), together_(together), group_(g), move_(move), element_(t.element), combine_(t.combine) {
    const std::int64_t n = g.size;
    elements_ = held_before(grid, t).elements();
    if (move == kind::all_reduce) {
      by.reserve(elements_ * size());
      return;
    }
    own_ = copy_between(intersect(held_before(grid, t), held_after(grid, t)), held_before(grid, t),
                        held_after(grid, t));
    if (move != kind::all_gather) give_ = blocks_given(grid, t);
    if (move != kind::reduce_scatter) take_ = blocks_taken(grid, t);
    widest_ = std::max(give_.blocks.widest(), take_.blocks.widest());
    if (move == kind::all_to_all && !even(t, grid.sizes())) widest_ = widest_of(grid, t);
    by.reserve(widest_ * (move == kind::all_gather ? 1 : n) * size());
  }
  scratch_bytes needs() const override { return {}; }
  [[gnu::cold]] void begin(const void* const* in, void* const* out, const scratch&) override {
    switch (move_) {
      case kind::all_reduce: return by_.all_reduce(*in, *out, elements_, element_, combine_);
      case kind::reduce_scatter: return reduce_scatter(*in, *out);
      default: return exchange(*in, *out);
    }
  }
  void finish() override {}
  bool communicates() const override { return false; }
  void progress() override {}

 private:
  std::int64_t size() const { return size_of(element_); }
  /// The elements of the longest block between any two devices of the group.
  [[gnu::cold]] static std::int64_t widest_of(const grid_state& grid, const transfer& t) {
    const std::int64_t devices = grid.sizes().product(t.axes);
    std::int64_t most = 0;
    for (std::int64_t from = 0; from < devices; ++from) {
      const box held = held_before(grid, t, grid.member(t.axes, from));
      for (std::int64_t to = 0; to < devices; ++to)
        most = std::max(most, intersect(held, held_after(grid, t, grid.member(t.axes, to))).elements());
    }
    return most;
  }
  std::int64_t given(int r) const { return give_.blocks.count(r); }
  /// Every device combines the parts that all devices have of its own block.
  [[gnu::cold]] void reduce_scatter(const void* in, void* out) {
    const std::int64_t sent = give_.elements() * size();
    if (sent == 0) return;
    traffic().collective(move_, group_.size, sent - given(group_.rank) * size());
    const stores slots = together_.slot_stores(sent);
    together_.reduce_scatter(
        widest_, [&](int r) { return given(r); },
        [&](int r, std::int64_t first, std::int64_t n, void* to) {
          // Its own part is read by this rank only.
          const stores how = r == group_.rank ? stores::in_caches : slots;
          pack_range(give_.copies[r], first, n, in, to, size(), how);
        },
        out, element_, combine_);
  }
  /// Every device gives the others its parts, which they unpack into their results.
  [[gnu::cold]] void exchange(const void* in, void* out) {
    const std::int64_t received = take_.elements() * size();
    const stores results = stores_of(received), slots = together_.slot_stores(elements_ * size());
    const auto taken = [&](int r) { return take_.blocks.count(r); };
    const auto take = [&](int r, std::int64_t first, std::int64_t n, const void* from) {
      unpack_range(take_.copies[r], first, n, from, out, size(), results);
    };
    if (widest_ == 0) return;
    traffic().collective(move_, group_.size, received - taken(group_.rank) * size());
    copy_box(own_, in, out, size(), results);
    if (move_ == kind::all_gather)
      together_.gather(
          widest_, elements_, size(), taken,
          [&](std::int64_t first, std::int64_t n, void* to) {
            node_group::copy_to_slot(to, element_at(in, first, element_), n * size(), slots);
          },
          take);
    else
      together_.exchange(
          widest_, size(), [&](int r) { return given(r); }, taken,
          [&](int r, std::int64_t first, std::int64_t n, void* to) {
            pack_range(give_.copies[r], first, n, in, to, size(), slots);
          },
          take);
  }

  group_transport& by_;
  node_group& together_;
  group group_;
  kind move_;
  element element_;
  reduction combine_;
  std::int64_t elements_ = 0, widest_ = 0;
  /// The blocks for the other devices and from them, and the part that stays on this one.
  packing give_{}, take_{};
  box_copy own_{};
};

/// The collectives of a group by shared memory: all of them if its ranks are on one node; the all-reduce alone if it
/// has equally many ranks on each of several nodes.
class node_collectives final : public group_transport {
 public:
  /// Collective over the group, whose ranks are on one node. False on all ranks if they cannot share memory.
  [[gnu::cold]] bool make(const group& g, bool crowded, stores long_stores) {
    group_ = g;
    return together_.make(g, crowded, long_stores);
  }
  /// The same of a group with `count` ranks on this node and equally many on others. `first` is the first of them in
  /// the group, and this rank is number `index` of them.
  [[gnu::cold]] bool make_across(const group& g, int count, int first, int index, bool crowded, stores long_stores) {
    group_ = g;
    check(MPI_Comm_split(g.handle, first, g.rank, &near_.handle), "MPI_Comm_split");
    check(MPI_Comm_split(g.handle, index, g.rank, &across), "MPI_Comm_split");
    near_.size = count;
    near_.rank = index;
    const int failed = together_.make(near_, crowded, long_stores) ? 0 : 1;
    int somewhere = 0;
    agree(&failed, &somewhere, 1, MPI_INT, MPI_MAX, g.handle);
    return somewhere == 0;
  }

  [[gnu::cold]] owned<bound_exchange> bind(kind move, grid_state& grid, const transfer& t) override {
    // Staged memory is that of a device.
    if (staged() || (!reaches_all() && move != kind::all_reduce)) return {};
    return owned<bound_exchange>(new node_move(*this, together_, group_, move, grid, t));
  }
  void reserve(std::int64_t bytes) override { together_.reserve(bytes); }
  [[gnu::cold]] void all_reduce(const void* in, void* out, std::int64_t elements, element e, reduction how) override {
    if (reaches_all()) return together_.all_reduce(in, out, elements, e, how);
    if (elements == 0) return;
    const range mine = slice_of(elements);
    const std::int64_t size = size_of(e), nodes = group_.size / near_.size;
    char* const own = element_at(out, mine.begin, e);
    // MPI counts its own part.
    traffic().bytes += 2 * (group_.size - 1) * elements * size / group_.size -
                       2 * (nodes - 1) * mine.size() * size / nodes;
    if (mine.size() == 0) ++traffic().calls;
    reduce_to_slices(in, out, elements, e, how);
    all_reduce_by_mpi(own, own, mine.size(), e, how, across);
    gather_slices(out, elements, e);
  }
  range slice_of(std::int64_t elements) const override { return together_.slice_of(elements); }
  void reduce_to_slices(const void* in, void* out, std::int64_t elements, element e, reduction how) override {
    together_.reduce_to_slices(in, out, elements, e, how);
  }
  void gather_slices(void* out, std::int64_t elements, element e) override {
    together_.gather_slices(out, elements, e);
  }
  void release() override {
    for (MPI_Comm* c : {&across, &near_.handle})
      if (*c != MPI_COMM_NULL) MPI_Comm_free(c);
  }

 private:
  group group_{}, near_{};
  node_group together_{};
};

}}} // namespace cleave::v0::comm
