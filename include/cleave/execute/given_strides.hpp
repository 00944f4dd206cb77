// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/expression_of.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/fold_cut.hpp>
#include <cleave/program/kept_halo.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/storage/box.hpp>

namespace cleave { inline namespace v0 {

/// How many ghosts a View has along each dim, before its shard and after it.
using ghost_widths = fixed_array<std::int64_t, max_rank>;

/// The strides of the arguments, then of the results, that a call reads and writes in Views that are not contiguous;
/// null: it is contiguous.
struct given_strides {
  indexed_vector<const strides*> of{};
  /// All arrays of more than one dim are in LayoutLeft order, those of the caller and those in the workspace.
  bool left = false;
  /// Copies a shard to memory that has the same strides.
  void (*copy)(const shape& extents, const strides& stride, const void* from, void* to, std::int64_t size) = nullptr;

  /// The ghosts of the arguments that halos may be written to; null: none.
  indexed_vector<const ghost_widths*> ghosts{};

  /// Whether the ghosts of an argument have room for a halo. An argument has one halo in its ghosts.
  [[gnu::cold]] bool ghosts_take(const program_view& p, const buffer& halo, const sizes& at,
                                 const coordinates& here) const {
    if (halo.form != form::halo || ghosts.empty()) return false;
    const buffer& shard = p.buffers[halo.of];
    if (shard.role != role::input || shard.form != form::shard || ghosts[shard.index] == nullptr) return false;
    if (exchange_of_only_halo(p, shard.index) == nullptr) return false;
    const ghost_widths& room = *ghosts[shard.index];
    const box own = indices_of(shard, p.maps, at, here);
    for (std::uint32_t part = 0; part < parts_of(halo.maps); ++part) {
      if ((halo.parts >> part & 1) == 0) continue;
      const box there = part_of_halo(halo, part, p.maps, at, here);
      for (int i = 0; i < there.rank && !there.empty(); ++i)
        if (there[i].begin < own[i].begin - room[i] || there[i].end > own[i].end + room[i]) return false;
    }
    return !own.empty();
  }

  const strides* of_buffer(const program_view& p, const buffer& b) const {
    if (b.role == role::workspace || b.form != form::shard) return nullptr;
    return of[b.role == role::input ? b.index : p.arguments + b.index];
  }
};

// Programs whose arrays are all in LayoutLeft order, as the caller's Views are. Their loops run along the first dim.

namespace detail {

/// Whether an expression of a pass, or of a fold, reads an index.
constexpr bool reads_index(const program_view& p, std::size_t number) {
  const auto has_index = [](indexed_span<const fused_op> ops) {
    bool any = false;
    for (const fused_op& t : ops) any = any || role_of(t.code) == fused_role::index;
    return any;
  };
  const step& s = p.steps[number];
  bool any = s.bounds == 0 && has_index(fused_ops_of(p, pass_of(p.steps, number).back()));
  for (const index_bound& b : bounds_of(p, s)) any = any || (b.ends && has_index(fused_ops_of(p, b)));
  return any;
}

/// Whether a map can run along the first dim of its loop: every load moves along it as it does along the last dim, for
/// which it was compiled.
[[gnu::cold]] inline bool maps_left(const program_view& p, std::size_t number) {
  const step& s = p.steps[number];
  const buffer& out = p.buffers[s.out];
  if ((out.form != form::shard && out.form != form::halo) || out.type.dims != s.loop.dims) return false;
  if (s.loop.rank < 2 || is_in_pass(s)) return true;
  const inner_dim inner = inner_dim_of(s, p.buffers, p.maps);
  for (std::size_t k = 0; k < s.in.size(); ++k) {
    const buffer& x = p.buffers[s.in[k]];
    if (x.form != form::shard && x.form != form::halo && !is_around_shard(p, x)) return false;
    const unsigned now = x.type.find(s.loop[0]) < 0 ? 0 : x.type[0] == s.loop[0] ? 1 : 2;
    if (inner.stride[k] != 2 && inner.stride[k] != now) return false;
  }
  return !reads_index(p, number);
}
/// Whether a fold along the last of two dims can run along its results. On every device, also on the one with the
/// smallest shard, they must be too many to be cut in pieces, so that all devices use the same order.
[[gnu::cold]] inline bool folds_left(const program_view& p, std::size_t number, const sizes& at) {
  const step& s = p.steps[number];
  if (!on_host || s.combine == reduction::logsumexp || s.loop.rank != 2 || s.folded != 1 || !folds_inner(p, number) ||
      reads_index(p, number))
    return false;
  return at.along(s.loop[0]).shortest(at.axes.product(s.space[0])) > most_cut_results;
}
/// Whether all arrays of a step have one dim at most, so that there is one order.
constexpr bool has_one_order(const program_view& p, const step& s) {
  bool one = p.buffers[s.out].type.rank < 2 && (s.kind != step_kind::fold || s.loop.rank < 2);
  for (std::uint16_t b : s.in) one = one && p.buffers[b].type.rank < 2 && p.buffers[b].form == form::shard;
  return one && s.kind != step_kind::loop_begin && s.kind != step_kind::loop_end;
}
/// Whether a program can run with all arrays in LayoutLeft order: it has such maps, their halos, and such folds only,
/// apart from steps with one dim at most. No dim is split or merged, since both arrays are the same memory in
/// LayoutRight order. The same on all devices.
[[gnu::cold]] inline bool runs_left(const program_view& p, const sizes& at) {
  for (const dim_product& d : p.rules.products)
    if (d[2] != no_dim) return false;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const step& s = p.steps[i];
    const bool halo = s.kind == step_kind::exchange && p.buffers[s.out].form == form::halo &&
                      p.buffers[s.in[0]].form == form::shard;
    if (s.kind == step_kind::wait || halo || has_one_order(p, s)) continue;
    if (s.kind == step_kind::map ? !maps_left(p, i) : s.kind != step_kind::fold || !folds_left(p, i, at)) return false;
  }
  return true;
}

} // namespace detail

}} // namespace cleave::v0
