// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_number.hpp>
#include <cleave/base/as_size.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/loop_binder.hpp>
#include <cleave/execute/range_selects.hpp>
#include <cleave/kernels/map_boxes.hpp>
#include <cleave/layout/index_map.hpp>

#include <algorithm>

// Cuts the iteration space of a map where a load goes from a shard to its halo, and where a select by a range of
// indices goes from one branch to the other.

namespace cleave::inline v0::detail {

/// Whether a step reads a shard and its halo.
constexpr bool reads_around_shard(const program_view& p, const step& s) {
  for (std::uint16_t n : s.in)
    if (is_around_shard(p, p.buffers[n])) return true;
  return false;
}

/// Whether a map reads a shard and the halo that a step fills.
constexpr bool reads_halo_of(const program_view& p, const step& s, const step& exchange) {
  if (s.kind != step_kind::map) return false;
  for (std::uint16_t b : s.in) {
    const buffer& x = p.buffers[b];
    if (is_around_shard(p, x) && x.of == exchange.out) return true;
  }
  return false;
}
/// Whether all exchanges that share messages with step `first`, the first of them, fill halos.
constexpr bool fill_halos(const program_view& p, std::size_t first) {
  for (std::size_t i = first; i < end_of_joined(p.steps, first); ++i)
    if (p.buffers[p.steps[i].out].form != form::halo) return false;
  return true;
}

/// The exchanges that a map waits for by itself, after what it computes away from their halos: the waits are just
/// before it. By number of the step in which each began, of those that share messages the first. Of these the map may
/// read one halo only: what the others bring or send is nothing that it writes, since later steps read the halos and
/// their shards.
inline indexed_vector<std::size_t> awaited_by(const program_view& p, std::size_t number) {
  indexed_vector<std::size_t> begun;
  if (number == p.steps.size()) return begun;
  for (std::size_t i = number; i > 0 && p.steps[i - 1].kind == step_kind::wait; --i) {
    const step& exchange = p.steps[p.steps[i - 1].begun];
    if (!reads_halo_of(p, p.steps[number], exchange)) continue;
    const std::size_t first = first_joined(p.steps, p.steps[i - 1].begun);
    begun.remove(first);
    if (fill_halos(p, first)) begun.push_back(first);
  }
  return begun;
}
/// Whether the map after a wait, and others, waits by itself.
inline bool left_to_reader(const program_view& p, std::size_t wait) {
  std::size_t reader = wait + 1;
  while (reader < p.steps.size() && p.steps[reader].kind == step_kind::wait) ++reader;
  for (std::size_t begun : awaited_by(p, reader))
    if (begun == first_joined(p.steps, p.steps[wait].begun)) return true;
  return false;
}
class box_binder {
 public:
  /// `code`: the functions of the expressions into which the selects are resolved.
  box_binder(const binder& b, const step& s, const map_functions* code, const range_selects& selects)
      : b_(b), s_(s), code_(code), loops_(b, s), ranges_(b, s, selects) {}

  [[gnu::cold]] map_boxes bind() {
    map_boxes made;
    const int rank = s_.loop.rank, inner = rank - 1;
    made.rows = extent_along(0);
    made.row_bytes = bytes_of_row();
    indexed_vector<indexed_vector<std::int64_t>> cuts;
    for (int i = 0; i < rank; ++i) {
      cuts.push_back(cuts_along(i));
      if (cuts.back().size() < 2) return made;
    }
    indexed_vector<std::size_t> at(as_size(rank), 0);
    const auto choose = [&](int i) {
      const auto d = as_size(i);
      loops_.part.begin[i] = cuts[d][at[d]];
      loops_.part.extent[i] = cuts[d][at[d] + 1] - cuts[d][at[d]];
    };
    const auto last = as_size(inner);
    while (true) {
      map_box box;
      for (int i = 0; i < inner; ++i) choose(i);
      for (at[last] = 0; at[last] + 1 < cuts[last].size(); ++at[last]) {
        choose(inner);
        box.segments.push_back(bind_segment());
      }
      if (box.segments.size() == 1) collapse(box.segments.front().loops);
      made.append(std::move(box));
      std::size_t i = last;
      while (i > 0 && ++at[i - 1] + 1 == cuts[i - 1].size()) at[--i] = 0;
      if (i == 0) return made;
    }
  }

 private:
  static void collapse(bound_loops& l) {
    l.outer.collapse(l.walked);
    l.inner = l.outer.back();
  }
  std::int64_t extent_along(int i) const { return b_.held_along(s_.loop, s_.space, i).size(); }
  /// How far from its own index along a dim an operand is read.
  std::int64_t distance(const buffer& view, dim_id along) const {
    for (int m = 0; m < view.maps; ++m)
      if (const dim_map& map = b_.program.maps[as_size(view.first_map + m)]; map.from == along)
        return map.offset.constant;
    return 0;
  }

  /// The indices where the parts of a dim begin, and its end.
  [[gnu::cold]] indexed_vector<std::int64_t> cuts_along(int i) const {
    const std::int64_t n = extent_along(i);
    indexed_vector<std::int64_t> cuts{0};
    if (n == 0) return cuts;
    add_cut(cuts, n);
    for (std::size_t k = 0; k < s_.in.size(); ++k) {
      const buffer& x = b_.operand(s_, k);
      const std::int64_t d = b_.is_around_shard(x) ? distance(x, s_.loop[i]) : 0;
      for (std::int64_t block = floor_div(d, n); block <= floor_div(d + n - 1, n); ++block)
        if (const std::int64_t cut = block * n - d; cut > 0 && cut < n) add_cut(cuts, cut);
    }
    indexed_vector<std::int64_t> changes;
    ranges_.append_cuts(i, changes);
    const std::int64_t first = b_.held_along(s_.loop, s_.space, i).begin;
    for (std::int64_t at : changes)
      if (at > first && at < first + n) add_cut(cuts, at - first);
    return cuts;
  }
  /// Keeps the cuts in order, each once. They are few; std::sort would be more for the compiler than all of this.
  [[gnu::cold]] static void add_cut(indexed_vector<std::int64_t>& cuts, std::int64_t cut) {
    std::size_t i = cuts.size();
    while (i > 0 && cuts[i - 1] > cut) --i;
    if (i == 0 || cuts[i - 1] != cut) cuts.insert(cuts.begin() + i, cut);
  }

  [[gnu::cold]] map_segment bind_segment() {
    map_segment made;
    waits_ = false;
    for (std::size_t k = 0; k < s_.in.size(); ++k)
      made.from.push_back(b_.is_around_shard(b_.operand(s_, k)) ? source_around(k) : source_of(k));
    made.waits = waits_;
    const buffer& out = b_.result(s_);
    made.out_bytes = bytes_of(out, b_.addresses(out));
    made.first_row = loops_.part.begin[0];
    made.rows = loops_.part.extent[0];
    loops_.bind_part(made.loops);
    for (std::size_t k = 0; k < s_.in.size(); ++k)
      made.from[k].beside_result = moves_like_result(made.loops, as_int(k));
    const int variant = variant_here();
    made.code = code_ + variant;
    made.copies = ranges_.copied_by(variant);
    if (made.copies >= 0 && !moves_like_result(made.loops, made.copies)) made.copies = -1;
    return made;
  }
  /// Of a result whose elements lie in the order of the loop; 0 of others.
  std::int64_t bytes_of_row() const {
    const buffer& out = b_.result(s_);
    if (out.form != form::shard || out.type.rank != s_.loop.rank || out.type.dims != s_.loop.dims) return 0;
    if (inner_dim_of(s_, b_.program.buffers, b_.program.maps).position != s_.loop.rank - 1) return 0;
    return stride_along(out, b_.addresses(out), s_.loop[0]) * size_of(out.type.element);
  }
  int variant_here() const {
    if (!ranges_.any()) return 0;
    std::int64_t index[max_rank]{};
    for (int i = 0; i < s_.loop.rank; ++i) index[i] = b_.held_along(s_.loop, s_.space, i).begin + loops_.part.begin[i];
    return ranges_.variant_at(index);
  }
  static bool moves_like_result(const bound_loops& l, int load) {
    bool same = true;
    for (int i = 0; i < l.outer.rank; ++i)
      same = same && l.outer.dims[i].stride[load] == l.outer.dims[i].stride[l.walked - 1];
    return same;
  }
  std::int64_t bytes_of(const buffer& x, const addressing& a) const {
    std::int64_t elements = 0;
    for (int i = 0; i < s_.loop.rank; ++i) elements += loops_.part.begin[i] * stride_along(x, a, s_.loop[i]);
    return elements * size_of(x.type.element);
  }
  map_segment::source source_of(std::size_t k) const {
    const buffer& x = b_.operand(s_, k);
    return {k, bytes_of(x, b_.addresses(x))};
  }
  /// Where a box reads a shard at a distance: in the shard, or in one part of its halo.
  [[gnu::cold]] map_segment::source source_around(std::size_t k) {
    const buffer& view = b_.operand(s_, k);
    const buffer& halo = b_.program.buffers[view.of];
    const buffer& shard = b_.program.buffers[halo.of];
    std::uint32_t part = 0, center = 0, digit = 1;
    std::int64_t index[max_rank];
    for (int i = 0; i < halo.type.rank; ++i) index[i] = loops_.part.begin[s_.loop.find(halo.type[i])];
    for (int m = 0; m < halo.maps; ++m, digit *= 3) {
      const dim_map& map = b_.program.maps[as_size(halo.first_map + m)];
      const int i = halo.type.find(map.from);
      const std::int64_t n = extent_along(s_.loop.find(map.from));
      index[i] += distance(view, map.from);
      const std::int64_t block = floor_div(index[i], n);
      if (wraps_around(map, halo.where, halo.type)) index[i] -= block * n;
      else if (block != 0) part += block < 0 ? 0 : 2 * digit;
      if (block == 0 || wraps_around(map, halo.where, halo.type)) part += digit;
      center += digit;
    }
    const bool inside = part == center, beside = !inside && !b_.lies_in_ghosts(halo);
    waits_ = waits_ || !inside;
    const box own = indices_of(shard, b_.program.maps, b_.at, b_.grid.here());
    const box there = beside ? part_of_halo(halo, part, b_.program.maps, b_.at, b_.grid.here()) : own;
    const strides along = beside ? strides_of(there.extents()) : strides_in(b_.addresses(shard));
    std::int64_t elements = 0;
    addressing strides;
    for (int i = halo.type.rank; i-- > 0;) {
      elements += (index[i] - (there[i].begin - own[i].begin)) * along[i];
      strides.stride[as_size(view.type.find(halo.type[i]))] = along[i];
    }
    if (beside) elements += offset_of_part(halo, part, b_.program.maps, b_.at, b_.grid.here());
    loops_.read_at(k, strides);
    std::size_t address = k;
    for (std::size_t other = 0; other < s_.in.size() && !beside; ++other)
      if (s_.in[other] == halo.of) address = other;
    return {address, elements * size_of(shard.type.element)};
  }

  const binder& b_;
  const step& s_;
  const map_functions* code_;
  loop_binder loops_;
  bound_ranges ranges_;
  /// Whether a load of the segment that is bound is in a halo.
  bool waits_ = false;
};

} // namespace cleave::inline v0::detail
