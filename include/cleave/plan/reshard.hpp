// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/static_vector.hpp>
#include <cleave/layout/moved.hpp>
#include <cleave/plan/policy.hpp>
#include <cleave/plan/step.hpp>

namespace cleave {

/// One move of a path: the collective, the axes over which devices take part, the layout reached.
struct hop {
  kind move = kind::none;
  axis_set axes = 0;
  layout to{};
};

/// How a value goes from one layout to another.
struct path {
  static_vector<hop, 8> hops{};
  cost price{};
  double score = 0;
};

namespace detail {

/// Messages that a device waits for in a tree or ring over n devices.
constexpr std::int64_t rounds(std::int64_t n) {
  std::int64_t r = 0;
  for (std::int64_t reach = 1; reach < n; reach *= 2) ++r;
  return r;
}

} // namespace detail

/// What one move costs, for any sizes. Even blocks are charged by the table of docs/12-cost.md; where blocks do not
/// nest, a move is the exchange that it becomes at run time.
constexpr cost price_of(const hop& h, const layout& from, const shape& global, std::int64_t element_bytes,
                        const axis_sizes& sizes) {
  const std::int64_t n = sizes.product(h.axes);
  switch (h.move) {
    case kind::none:
    case kind::exchange:
    case kind::scan:
    case kind::mask: return {};
    case kind::all_reduce: {
      if (n == 1) return {};
      const std::int64_t operand = largest_shape(global, from, sizes).elements() * element_bytes;
      return {2 * (n - 1) * operand / n, 2 * detail::rounds(n)};
    }
    case kind::reduce_scatter: {
      if (n == 1) return {};
      const std::int64_t operand = largest_shape(global, from, sizes).elements();
      bool nested = true, even = true;
      for (int i = 0; i < global.rank; ++i)
        if (from[i] != h.to[i]) {
          nested = nested && nests(global[i], from[i], h.to[i], sizes);
          even = even && global[i] % sizes.product(h.to[i]) == 0;
        }
      if (nested && even) return {(n - 1) * operand * element_bytes / n, detail::rounds(n)};
      if (nested) return {(operand - smallest_part(global, from, h.to, h.axes, sizes)) * element_bytes, detail::rounds(n)};
      layout whole = from;
      whole.unreduced = h.to.unreduced;
      const std::int64_t exchanged = moved(global, whole, h.to, sizes) * element_bytes;
      return {2 * (n - 1) * operand * element_bytes / n + exchanged, 3 * detail::rounds(n)};
    }
    case kind::slice:
    case kind::all_gather:
    case kind::all_to_all:
    case kind::collective_permute: {
      const std::int64_t bytes = moved(global, from, h.to, sizes) * element_bytes;
      if (bytes == 0) return {};
      if (h.move == kind::all_gather) return {bytes, detail::rounds(n)};
      if (h.move == kind::all_to_all) return {bytes, n - 1};
      std::int64_t peers = 1;
      for (int i = 0; i < global.rank; ++i) {
        const std::int64_t p = sizes.product(from[i]), q = sizes.product(h.to[i]);
        if (p > q) peers *= p / q;
      }
      return {bytes, peers};
    }
  }
  return {};
}

namespace detail {

/// Search for the cheapest path between two layouts of one value.
struct path_search {
  const shape& global;
  std::int64_t element_bytes;
  const axis_sizes& sizes;
  const policy& rule;

  constexpr bool append(path& p, layout& at, kind move, axis_set axes, const layout& to) const {
    if (at == to) return true;
    const hop h{move, axes, to};
    p.price += price_of(h, at, global, element_bytes, sizes);
    p.score = rule.score(p.price);
    if (p.hops.full()) return false;
    p.hops.push_back(h);
    at = to;
    return true;
  }

  /// The layout after every slice that costs nothing: axes that nothing uses yet, appended where the target has them.
  constexpr layout sliced_towards(const layout& from, const layout& to, axis_set keep_off) const {
    layout l = from;
    axis_set used = static_cast<axis_set>(from.used() | keep_off);
    for (int i = 0; i < global.rank; ++i) {
      if (!to[i].starts_with(from[i])) continue;
      for (int j = from[i].size(); j < to[i].size() && (used >> to[i][j] & 1) == 0; ++j) l[i].push_back(to[i][j]);
    }
    return l;
  }

  /// Without partial values. Slices first, then axes that change dims in one all-to-all, then what must be gathered;
  /// where lists do not nest like this, or that costs more, one exchange in which every device receives just what it lacks.
  constexpr path whole(const layout& from, const layout& to) const {
    path direct;
    if (from == to) return direct;
    bool grows = true, shrinks = true;
    for (int i = 0; i < global.rank; ++i) {
      grows = grows && to[i].starts_with(from[i]);
      shrinks = shrinks && from[i].starts_with(to[i]);
    }
    const axis_set before = from.sharded(), after = to.sharded();
    layout at = from;
    if (grows) {
      append(direct, at, kind::slice, static_cast<axis_set>(after & ~before), to);
      return direct;
    }
    if (shrinks) {
      append(direct, at, kind::all_gather, static_cast<axis_set>(before & ~after), to);
      return direct;
    }
    append(direct, at, kind::collective_permute, static_cast<axis_set>(before | after), to);

    path staged;
    at = from;
    const layout sliced = sliced_towards(from, to, 0);
    append(staged, at, kind::slice, static_cast<axis_set>(sliced.sharded() & ~before), sliced);
    // Which axes change dims: they end the list of one dim and continue the list of another.
    layout turned = at;
    axis_set moving = 0;
    for (int i = 0; i < global.rank; ++i) {
      const int common = at[i].common_prefix(to[i]);
      for (int j = common; j < at[i].size(); ++j)
        if ((after >> at[i][j] & 1) != 0) moving = static_cast<axis_set>(moving | axis_bit(at[i][j]));
    }
    bool plain = true;
    for (int i = 0; i < global.rank; ++i) {
      int kept = at[i].size();
      while (kept > 0 && (moving >> at[i][kept - 1] & 1) != 0) --kept;
      turned[i] = at[i].prefix(kept);
      plain = plain && (turned[i].mask() & moving) == 0;
    }
    for (int i = 0; i < global.rank; ++i) {
      if (!to[i].starts_with(turned[i])) continue;
      int j = turned[i].size();
      bool gained = false;
      for (; j < to[i].size() && (moving >> to[i][j] & 1) != 0; ++j, gained = true) turned[i].push_back(to[i][j]);
      plain = plain && !(gained && at[i].size() > 0 && !turned[i].starts_with(at[i]));
    }
    plain = plain && (turned.sharded() & moving) == moving;
    if (!plain) return direct;
    bool fits = append(staged, at, kind::all_to_all, moving, turned);
    for (int i = 0; i < global.rank; ++i) fits = fits && at[i].starts_with(to[i]);
    if (!fits) return direct;
    append(staged, at, kind::all_gather, static_cast<axis_set>(at.sharded() & ~after), to);
    return staged.score <= direct.score ? staged : direct;
  }

  /// Tries every way to place the partial axes: scattered onto some dim, or reduced everywhere.
  constexpr void place(const path& so_far, const layout& at, const layout& to, path& best, bool& any) const {
    const axis_set left = static_cast<axis_set>(at.unreduced & ~to.unreduced);
    if (any && so_far.score > best.score) return;
    {
      path p = so_far;
      layout l = at, reduced = at;
      reduced.unreduced = to.unreduced;
      bool fits = append(p, l, kind::all_reduce, left, reduced);
      const path rest = whole(l, to);
      for (const hop& h : rest.hops) {
        if (p.hops.full()) fits = false;
        if (fits) p.hops.push_back(h);
      }
      p.price += rest.price;
      p.score = rule.score(p.price);
      if (fits && (!any || p.score < best.score)) {
        best = p;
        any = true;
      }
    }
    for (int a = 0; a < max_axes; ++a) {
      if ((left >> a & 1) == 0) continue;
      for (int i = 0; i < global.rank; ++i) {
        layout l = at;
        l[i].push_back(a);
        l.unreduced = static_cast<axis_set>(l.unreduced & ~axis_bit(a));
        const bool asked = to[i].starts_with(l[i]);
        if (!asked && global[i] % sizes.product(l[i]) != 0) continue;
        path p = so_far;
        layout reached = at;
        if (!p.hops.empty() && p.hops.back().move == kind::reduce_scatter) {
          // one reduce-scatter over both axes instead of two
          const cost step = price_of({kind::reduce_scatter, axis_bit(a), l}, at, global, element_bytes, sizes);
          p.hops.back().to = l;
          p.hops.back().axes = static_cast<axis_set>(p.hops.back().axes | axis_bit(a));
          p.price += step;
          p.score = rule.score(p.price);
        } else if (!append(p, reached, kind::reduce_scatter, axis_bit(a), l)) {
          continue;
        }
        place(p, l, to, best, any);
      }
    }
  }
};

} // namespace detail

/// The cheapest way from one layout to another, for values of the given global extents: free slices first, then the
/// partial axes (reduce-scatter onto any dim, or all-reduce), then one exchange at most; everything priced by the policy.
/// Never through a replicated copy unless that is what is asked. Communication: as the hops say.
constexpr path find_path(const shape& global, std::int64_t element_bytes, const layout& from, const layout& to,
                         const axis_sizes& sizes, const policy& rule) {
  if (from == to) return {};
  const detail::path_search search{global, element_bytes, sizes, rule};
  // A partial value stays partial only under the same reduction.
  const axis_set kept = from.combine == to.combine ? static_cast<axis_set>(to.unreduced & from.unreduced) : axis_set{0};
  const axis_set fresh = static_cast<axis_set>(to.unreduced & ~kept);
  layout target = to;
  target.unreduced = kept;
  target.combine = from.combine;
  path found;
  if ((from.unreduced & ~target.unreduced) == 0) {
    found = search.whole(from, target);
  } else {
    path start;
    layout at = from;
    const layout sliced = search.sliced_towards(from, target, 0);
    search.append(start, at, kind::slice, static_cast<axis_set>(sliced.sharded() & ~from.sharded()), sliced);
    bool any = false;
    search.place(start, at, target, found, any);
  }
  if (fresh != 0) {
    // A whole value becomes a partial one: kept on one device of the axes, the identity elsewhere.
    layout at = target;
    search.append(found, at, kind::mask, fresh, to);
  }
  return found;
}

} // namespace cleave
