// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/errors.hpp>
#include <cleave/redistribute/copy.hpp>
#include <cleave/redistribute/errors.hpp>
#include <cleave/redistribute/grid_copy.hpp>
#include <cleave/tensor/errors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

// Copies between grids whose communicators have nothing in common, as those of MPI_Comm_split. The ranks of one grid
// know nothing of the other one: at the first copy they tell each other who is which device.

namespace cleave { inline namespace v0 {

/// A communicator over which tensors are copied between two grids that were made from other communicators: it has all
/// ranks of both. `bridge over(comm); copy(x, y, over);`. Copies are handles of the same bridge. It keeps
/// a schedule for each pair of grids, types and extents, so with new grids make a new bridge.
class bridge {
 public:
  /// Duplicates the communicator. Collective over it. Throws as the constructor of a grid does.
  explicit bridge(MPI_Comm comm) : all_(mesh_value{}, comm, {}, on_ranks{0, 1}) {}

  /// The state behind the handle, for the library.
  grid_state& state() const { return all_.state(); }

 private:
  grid all_;
};

namespace detail {

/// One side of a copy: the numbers by which a rank describes its tensor to the others.
struct bridge_side {
  std::int64_t present = 0, device = -1;
  std::array<std::int64_t, std::size_t{max_axes}> sizes{};
  std::array<std::int64_t, std::size_t{max_rank}> extents{};

  bridge_side() = default;
  explicit bridge_side(const tensor_state* t) {
    if (t == nullptr) return;
    const grid_state& g = t->grid.state();
    present = 1;
    device = g.active() ? g.world().rank : -1;
    for (int a = 0; a < g.mesh().size(); ++a) sizes[as_size(a)] = g.sizes()[a];
    for (int d = 0; d < t->global.rank; ++d) extents[as_size(d)] = t->global[d];
  }
};
struct bridge_record {
  std::int64_t types = 0;
  bridge_side source{}, target{};
};

/// Which device each rank of the bridge is on one side. Throws on all ranks alike.
[[gnu::cold]] inline bridge_side find_devices(const std::vector<bridge_record>& all, bridge_side bridge_record::* side,
                                              const mesh_value& mesh, std::string_view name, comm::device_ranks& made) {
  const auto first = std::find_if(all.begin(), all.end(), [&](const auto& r) { return (r.*side).present != 0; });
  if (first == all.end()) raise<grid_error>(wording::bridge_without(name));
  const bridge_side& known = (*first).*side;
  for (int a = 0; a < mesh.size(); ++a) made.sizes[a] = known.sizes[as_size(a)];
  const std::int64_t devices = made.sizes.devices();
  indexed_vector<std::int64_t> found;
  found.resize(as_size(devices), 0);
  for (const bridge_record& r : all) {
    const bridge_side& s = r.*side;
    if (s.present != 0 && (s.sizes != known.sizes || s.extents != known.extents))
      raise<grid_error>(wording::bridge_grids(name));
    made.device_at.push_back(as_int(s.device));
    if (s.device >= 0) ++found[s.device];
  }
  for (std::int64_t d = 0; d < devices; ++d)
    if (found[d] != 1) raise<grid_error>(wording::bridge_device(name, d, found[d]));
  return known;
}

/// A copy between two types of tensor, for code that does not know the types.
struct bridged_types {
  const void* key;
  const spec *source, *target;
  comm::grid_transfer (*transfer_of)(const shape&, const shape&);

  /// The same on all ranks whose tensors have the same types.
  [[gnu::cold]] std::int64_t hash() const {
    comm::word_hash h;
    // Each list ends with a word of its own.
    const auto add = [&](std::string_view word) { h.mix(word).mix(256); };
    for (const spec* s : {source, target}) {
      for (const placement& p : s->dims) {
        add(p.dim.name);
        add(p.dim.blocks);
        for (const std::string_view axis : p.axes) add(axis);
        add({});
      }
      for (const std::string_view axis : s->unreduced) add(axis);
      for (const axis_info& axis : s->mesh.axes) add(axis.name);
      h.mix(s->combine);
    }
    h.mix(transfer_of(shape{}, shape{}).element);
    return as_signed(h.value >> 1);
  }
};

/// The copies that were made over a bridge. Every rank has as many, each with its own key.
struct bridged_copies {
  struct entry {
    indexed_vector<std::int64_t> key;
    std::unique_ptr<comm::grid_copy> copy;
    /// The copy that followed this one the last time.
    std::int64_t next;
  };
  std::vector<entry> known{};
  std::int64_t last = -1;

  /// The copy that follows if all is as it was, if it may be the one with a key; else the first one that may be.
  std::int64_t expected(const indexed_vector<std::int64_t>& key) const {
    const std::int64_t next = last < 0 ? 0 : known[as_size(last)].next;
    return find(key, next) == next ? next : find(key, 0);
  }
  void follow(std::int64_t number) {
    if (last >= 0) known[as_size(last)].next = number;
    last = number;
  }

  /// The first one from `first` on that has a key; past the end there is none.
  std::int64_t find(const indexed_vector<std::int64_t>& key, std::int64_t first) const {
    while (first < std::ssize(known) && !(known[as_size(first)].key == key)) ++first;
    return first;
  }
};
inline constexpr char bridged_copies_key = 0;

/// One copy over a bridge. On this rank there may be only one side, or none.
class bridged_call {
 public:
  bridged_call(grid_state& on, const tensor_state* source, const tensor_state* target, const bridged_types& types)
      : on_(on), source_(source), target_(target), types_(types) {}

  void run() {
    prepare();
    void* found = on_.bound().find(&bridged_copies_key, {});
    if (found == nullptr) found = on_.bound().keep(&bridged_copies_key, {}, std::make_shared<bridged_copies>());
    auto& copies = *as<bridged_copies>(found);
    const indexed_vector<std::int64_t> mine = key();
    const std::int64_t number = agree(copies, mine);
    if (number == std::ssize(copies.known)) copies.known.push_back({mine, bind(), number});
    copies.follow(number);
    const auto& copy = copies.known[as_size(number)].copy;
    guarded(source_, [&] { guarded(target_, [&] { on_.guarded([&] { copy->run(in_, out_); }); }); });
    if (target_ != nullptr) target_->end_writing();
  }

 private:
  enum : std::int64_t { fine, no_memory, constants, unusable };

  template <class F>
  static void guarded(const tensor_state* t, const F& f) {
    if (t == nullptr) f();
    else t->grid.state().guarded(f);
  }
  /// Everything that may fail on one rank alone, before the ranks depend on each other.
  void prepare() {
    on_.require_usable();
    require_kokkos();
    for (const tensor_state* t : {source_, target_})
      if (t != nullptr && t->grid.state().broken()) fault_ = unusable;
    if (target_ != nullptr && target_->read_only) fault_ = std::max<std::int64_t>(fault_, constants);
    if (target_ != nullptr) target_->halo = {};
    if (fault_ != fine) return;
    const bool found = finds_memory([&] {
      if (source_ != nullptr) in_ = source_->packed();
      if (target_ != nullptr) out_ = target_->begin_writing();
    });
    if (!found) fault_ = no_memory;
  }
  indexed_vector<std::int64_t> key() const {
    indexed_vector<std::int64_t> all;
    all.push_back(reinterpret_cast<std::intptr_t>(types_.key));
    for (const tensor_state* t : {source_, target_}) {
      all.push_back(t == nullptr ? 0 : t->grid.state().id());
      for (int d = 0; t != nullptr && d < t->global.rank; ++d) all.push_back(t->global[d]);
    }
    return all;
  }
  /// The number of the copy, which is the same on all ranks. If it is not the expected one, each takes its next one
  /// that is not before anybody's.
  std::int64_t agree(const bridged_copies& copies, const indexed_vector<std::int64_t>& mine) {
    std::int64_t all[4] = {}, number = copies.expected(mine);
    if (is_common(number, all)) return number;
    number = copies.find(mine, 0);
    while (!is_common(number, all)) number = copies.find(mine, all[0]);
    return number;
  }
  /// Whether all ranks have the same number; `all` begins with the largest.
  bool is_common(std::int64_t number, std::int64_t (&all)[4]) {
    const std::int64_t told[4] = {number, -number, fault_, fault_ == fine ? -1 : on_.everyone().rank};
    on_.largest(told, all, 4, on_.everyone());
    refuse(all[2], all[3]);
    return all[0] == -all[1];
  }
  [[gnu::cold]] std::unique_ptr<comm::grid_copy> bind() {
    const comm::group& ranks = on_.everyone();
    const bridge_record mine{types_.hash(), bridge_side(source_), bridge_side(target_)};
    std::vector<bridge_record> all(as_size(ranks.size));
    constexpr int count = sizeof(bridge_record) / sizeof(std::int64_t);
    on_.guarded([&] {
      comm::check(MPI_Allgather(&mine, count, MPI_INT64_T, all.data(), count, MPI_INT64_T, ranks.handle),
                  "MPI_Allgather");
    });
    for (const bridge_record& r : all)
      if (r.types != mine.types) raise<grid_error>(wording::bridge_types());
    comm::device_ranks from, to;
    const bridge_side have = find_devices(all, &bridge_record::source, types_.source->mesh, "source", from),
                      want = find_devices(all, &bridge_record::target, types_.target->mesh, "target", to);
    shape global;
    global.rank = types_.target->rank();
    for (int d = 0; d < global.rank; ++d) {
      const std::string_view name = types_.target->dims[d].dim.name;
      global[d] = want.extents[as_size(d)];
      const std::int64_t theirs = have.extents[as_size(types_.source->find(name))];
      if (theirs != global[d]) raise<shape_error>(wording::extents_differ(name, theirs, global[d]));
      for (const spec* side : {types_.source, types_.target})
        if (!side->dims[side->find(name)].dim.blocks.empty()) raise<shape_error>(wording::bridge_blocks(name));
    }
    std::unique_ptr<comm::grid_copy> made;
    guarded(source_, [&] {
      grid_state* const source = source_ == nullptr ? nullptr : &source_->grid.state();
      const bool found = finds_memory(
          [&] { made.reset(new comm::grid_copy(ranks, from, to, source, types_.transfer_of(global, global))); });
      if (!found) fault_ = no_memory;
    });
    std::int64_t worst[2] = {};
    const std::int64_t told[2] = {fault_, fault_ == fine ? -1 : ranks.rank};
    on_.largest(told, worst, 2, ranks);
    refuse(worst[0], worst[1]);
    return made;
  }
  /// Throws on all ranks where something is wrong on one of them.
  static void refuse(std::int64_t fault, std::int64_t rank) {
    if (fault == unusable) throw mpi_error(wording::grid_broken(), MPI_ERR_OTHER);
    if (fault == constants) raise<view_error>(wording::view_is_read_only());
    if (fault == no_memory) raise<memory_error>(wording::bridge_out_of_memory(rank));
  }

  grid_state& on_;
  const tensor_state *source_, *target_;
  const bridged_types& types_;
  std::int64_t fault_ = fine;
  const void* in_ = nullptr;
  void* out_ = nullptr;
};

} // namespace detail

/// Copies a tensor into one on a grid that was made from another communicator, as by MPI_Comm_split: the two may have
/// any ranks in common, or none. The tensors have the same dims, in any order, and any layouts. On a rank that is not
/// in the communicator of a grid, the tensor of that side has no data: `Field u; copy(u, v, over)`.
///
/// Collective over the communicator of the bridge; ranks without any of the two tensors call it too. Communication: one
/// message at most from each source shard to each device, with just the elements that it lacks; a partial source needs
/// one all-reduce over its devices. Besides that one all-reduce of four numbers over the bridge, two or more where
/// copies follow each other otherwise than before, and, when a copy is made for the first time, an all-gather of the
/// sizes of the grids and the extents. Throws on all ranks of the bridge alike, before anything is written: grid_error
/// if a side is on no rank, the ranks pass tensors of different types, grids or extents, or a device of a grid is not
/// in the bridge; shape_error if an extent of the two differs; view_error if the target is a View of constants on any
/// rank; memory_error if a rank has no memory for its messages.
template <class T, auto From, class U, auto To>
void copy(const tensor<T, From>& from, const tensor<U, To>& to, const bridge& over) {
  using types = detail::copy_types<tensor<T, From>, tensor<U, To>>;
  static_assert(sizeof(typename detail::rejection_of<types>::type) != 0);
  if constexpr (types::found.ok()) {
    static constexpr detail::bridged_types both{&detail::copy_key<types>, &types::source, &types::target,
                                                &types::transfer_of};
    detail::bridged_call(over.state(), from ? &from.state() : nullptr, to ? &to.state() : nullptr, both).run();
  }
}

}} // namespace cleave::v0
