// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/execute/loop_binder.hpp>
#include <cleave/kernels/map_boxes.hpp>
#include <cleave/layout/index_map.hpp>

#include <algorithm>

// Cuts the iteration space of a map at indices where a load passes from a shard to its halo, and at the boxes in which
// the plan says that it evaluates expressions of their own.

namespace cleave { inline namespace v0 { namespace detail {

/// Whether a step reads a shard and its halo.
constexpr bool reads_around_shard(const program_view& p, const step& s) {
  for (std::uint16_t n : s.in)
    if (is_around_shard(p, p.buffers[n])) return true;
  return false;
}

/// Whether a map is cut into boxes: it reads a shard and its halo, computes a halo, or has boxes in the plan.
constexpr bool is_boxed(const program_view& p, const step& s) {
  return s.bounds > 0 || reads_around_shard(p, s) || p.buffers[s.out].form == form::halo;
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

/// The exchanges that a map waits for by itself, after it has computed the points away from their halos: the waits are
/// just before it. By number of the step in which each began, of those that share messages the first. Of these the map
/// may read one halo only. It writes no operand or result of the others, since later steps read the halos and their
/// shards.
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
  /// `code`: the functions of the expressions of the step.
  box_binder(const binder& b, const step& s, const map_functions* code) : b_(b), s_(s), code_(code), loops_(b, s) {}

  [[gnu::cold]] map_boxes bind() {
    map_boxes made;
    if (b_.result(s_).form == form::halo) {
      bind_halo(made);
      return made;
    }
    made.rows = extent_along(0);
    made.row_bytes = bytes_of_row();
    for (int i = 0; i < s_.loop.rank; ++i) area_[i] = {{0, extent_along(i)}, 0};
    out_ = b_.addresses(b_.result(s_));
    append_boxes(made);
    return made;
  }

 private:
  /// The computed range along a dim, counted from the first index of the device, and how much smaller its indices are.
  struct stretch {
    range along{};
    std::int64_t wrapped = 0;
  };

  /// The box of the plan that counts where the bound part begins, its end; null if the step has one expression.
  [[gnu::cold]] const index_bound* planned_here() const {
    bool inside = true;
    for (const index_bound& b : bounds_of(b_.program, s_)) {
      if (b.ends && inside) return &b;
      const std::int64_t index = b.dim < 0 ? 0 : loops_.first_index(b.dim);
      inside = b.ends || (inside && (index < evaluated(b.at, b_.at)) == b.upper);
    }
    return nullptr;
  }

  /// The boxes of the area.
  [[gnu::cold]] void append_boxes(map_boxes& made) {
    const int rank = s_.loop.rank, inner = rank - 1;
    // The dims from the outermost loop to the innermost.
    const auto dim_at = [&](int k) { return b_.is_left() ? inner - k : k; };
    indexed_vector<indexed_vector<std::int64_t>> cuts;
    for (int k = 0; k < rank; ++k) {
      const int i = dim_at(k);
      loops_.part.wrapped[i] = area_[i].wrapped;
      cuts.push_back(cuts_along(i));
      if (cuts.back().size() < 2) return;
    }
    indexed_vector<std::size_t> at(as_size(rank), 0);
    const auto choose = [&](int k) {
      const auto d = as_size(k);
      const int i = dim_at(k);
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
      for (map_segment& s : box.segments) prefetch(s);
      made.append(std::move(box));
      std::size_t i = last;
      while (i > 0 && ++at[i - 1] + 1 == cuts[i - 1].size()) at[--i] = 0;
      if (i == 0) return;
    }
  }

  /// The boxes of a halo: the part of the domain in each of its parts.
  [[gnu::cold]] void bind_halo(map_boxes& made) {
    const buffer& halo = b_.result(s_);
    for (std::uint32_t part = 0; part < parts_of(halo.maps); ++part) {
      if ((halo.parts >> part & 1) == 0) continue;
      const box all = part_of_halo(halo, part, b_.program.maps, b_.at, b_.grid.here());
      if (all.elements() == 0) continue;
      out_ = {};
      const strides along = strides_of(all.extents(), b_.is_left());
      for (int i = 0; i < halo.type.rank; ++i) out_.stride[as_size(i)] = along[i];
      out_.offset = offset_of_part(halo, part, b_.program.maps, b_.at, b_.grid.here());
      for (int i = 0; i < s_.loop.rank; ++i)
        out_.offset -= (all[halo.type.find(s_.loop[i])].begin - held(i).begin) * stride_along(halo, out_, s_.loop[i]);
      loops_.read_at(s_.in.size(), out_);
      if (!append_areas(made, halo, all, 0)) made.zeroed = b_.bytes(halo);
    }
  }
  /// Of the dims from `i` on, all areas of a part of a halo with consecutive indices; false: a part of it is outside of
  /// the domain.
  [[gnu::cold]] bool append_areas(map_boxes& made, const buffer& halo, const box& all, int i) {
    if (i == s_.loop.rank) {
      append_boxes(made);
      return true;
    }
    const dim_id d = s_.loop[i];
    const range here = all[halo.type.find(d)];
    const std::int64_t n = b_.at[d], first = held(i).begin;
    bool ring = false, inside = true;
    for (int m = 0; m < halo.maps; ++m)
      if (const dim_map& map = b_.program.maps[as_size(halo.first_map + m)]; map.from == d)
        ring = map.outside == border::periodic;
    if (!ring) inside = here.begin >= 0 && here.end <= n;
    for (std::int64_t turn = ring ? floor_div(here.begin, n) : 0; turn <= (ring ? floor_div(here.end - 1, n) : 0);
         ++turn) {
      const range some = intersect(here, {turn * n, (turn + 1) * n});
      if (some.size() <= 0) continue;
      area_[i] = {{some.begin - first, some.end - first}, turn * n};
      inside = append_areas(made, halo, all, i + 1) && inside;
    }
    return inside;
  }

  range held(int i) const { return b_.held_along(s_.loop, s_.space, i); }
  static void collapse(bound_loops& l) {
    l.outer.collapse(l.walked);
    l.inner = l.outer.back();
  }
  std::int64_t extent_along(int i) const { return held(i).size(); }
  /// How far from its own index along a dim an operand is read.
  std::int64_t distance(const buffer& view, dim_id along) const {
    for (int m = 0; m < view.maps; ++m)
      if (const dim_map& map = b_.program.maps[as_size(view.first_map + m)]; map.from == along)
        return map.offset.constant;
    return 0;
  }

  /// The indices where the parts of a dim of the area begin, and its end.
  [[gnu::cold]] indexed_vector<std::int64_t> cuts_along(int i) const {
    const std::int64_t n = extent_along(i);
    const range area = area_[i].along;
    indexed_vector<std::int64_t> cuts{area.begin};
    if (area.size() == 0) return cuts;
    add_cut(cuts, area.end);
    const auto cut_at = [&](std::int64_t at) {
      if (at > area.begin && at < area.end) add_cut(cuts, at);
    };
    for (std::size_t k = 0; k < s_.in.size(); ++k) {
      const buffer& x = b_.operand(s_, k);
      if (!b_.is_around_shard(x)) continue;
      const std::int64_t d = distance(x, s_.loop[i]);
      for (std::int64_t block = floor_div(area.begin + d, n); block <= floor_div(area.end - 1 + d, n); ++block)
        cut_at(block * n - d);
    }
    for (const index_bound& bound : bounds_of(b_.program, s_))
      if (!bound.ends && bound.dim == i) cut_at(evaluated(bound.at, b_.at) - held(i).begin + area_[i].wrapped);
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
    std::uint64_t waits = 0;
    for (std::size_t k = 0; k < s_.in.size(); ++k) {
      waits_ = false;
      made.from.push_back(b_.is_around_shard(b_.operand(s_, k)) ? source_around(k) : source_of(k));
      if (waits_) waits |= std::uint64_t{1} << k;
    }
    const buffer& out = b_.result(s_);
    made.out_bytes[0] = bytes_of(out, out_) + out_.offset * size_of(out.type.element);
    const indexed_span<const step> pass = b_.pass_of(s_);
    for (std::size_t r = 1; r < pass.size(); ++r)
      made.out_bytes[r] = bytes_of(b_.result(pass[r]), b_.addresses(b_.result(pass[r])));
    made.first_row = loops_.part.begin[0];
    made.rows = loops_.part.extent[0];
    int copies = -1;
    made.code = code_;
    if (const index_bound* end = planned_here(); end != nullptr) {
      made.code += end->expression;
      loops_.fused_ops = fused_ops_of(b_.program, *end);
      if (end->ops == 1 && loops_.fused_ops[0].code == op::input) copies = loops_.fused_ops[0].arg;
    }
    loops_.bind_part(made.loops);
    for (std::size_t k = 0; k < s_.in.size(); ++k)
      made.from[k].beside_result = moves_like_result(made.loops, as_int(k));
    made.waits = copies >= 0 ? (waits >> copies & 1) != 0 : waits != 0;
    if (copies >= 0 && moves_like_result(made.loops, copies)) made.copies = copies;
    return made;
  }
  /// Of the loads from one array, prefetches the one at the highest address: the others read the same memory later.
  void prefetch(map_segment& made) const {
    for (std::size_t k = 0; k < made.from.size(); ++k) {
      bool leads = true;
      for (const map_segment::source& other : made.from)
        leads = leads && (other.address != made.from[k].address || other.bytes <= made.from[k].bytes);
      if (leads) loops_.prefetch(made.loops, k);
    }
  }
  /// Of a result whose elements are stored in the order of the loop; 0 of others.
  std::int64_t bytes_of_row() const {
    const buffer& out = b_.result(s_);
    if (out.form != form::shard || out.type.rank != s_.loop.rank || out.type.dims != s_.loop.dims) return 0;
    if (b_.is_left() || inner_dim_of(s_, b_.program.buffers, b_.program.maps).position != s_.loop.rank - 1) return 0;
    return stride_along(out, b_.addresses(out), s_.loop[0]) * size_of(out.type.element);
  }
  static bool moves_like_result(const bound_loops& l, int load) {
    bool same = true;
    for (int i = 0; i < l.outer.rank; ++i)
      same = same && l.outer.dims[i].stride[load] == l.outer.dims[i].stride[l.first_result()];
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
    bool blank = false;
    std::int64_t index[max_rank];
    for (int i = 0; i < halo.type.rank; ++i) index[i] = loops_.part.begin[s_.loop.find(halo.type[i])];
    for (int m = 0; m < halo.maps; ++m, digit *= 3) {
      const dim_map& map = b_.program.maps[as_size(halo.first_map + m)];
      const int i = halo.type.find(map.from), position = s_.loop.find(map.from);
      const std::int64_t n = extent_along(position);
      index[i] += distance(view, map.from);
      // Zeros outside of the domain are there as soon as the exchange begins.
      const std::int64_t first = held(position).begin + index[i], end = first + loops_.part.extent[position];
      blank = blank || (map.outside == border::zero && (end <= 0 || first >= b_.at[map.from]));
      const std::int64_t block = floor_div(index[i], n);
      if (wraps_around(map, halo.where, halo.type)) index[i] -= block * n;
      else if (block != 0) part += block < 0 ? 0 : 2 * digit;
      if (block == 0 || wraps_around(map, halo.where, halo.type)) part += digit;
      center += digit;
    }
    const bool inside = part == center, beside = !inside && !b_.lies_in_ghosts(halo);
    waits_ = !inside && !blank;
    const box own = indices_of(shard, b_.program.maps, b_.at, b_.grid.here());
    const box there = beside ? part_of_halo(halo, part, b_.program.maps, b_.at, b_.grid.here()) : own;
    const strides along = beside ? strides_of(there.extents(), b_.is_left()) : strides_in(b_.addresses(shard));
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
  /// The computed area; and of the result, the strides and the place of the device's first index.
  stretch area_[max_rank]{};
  addressing out_{};
  /// Whether the load that is bound last is in a part of a halo that others send.
  bool waits_ = false;
};

}}} // namespace cleave::v0::detail
