// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/cost/collective.hpp>

namespace cleave { inline namespace v0 {

/// The moves that take a value from one layout to another.
inline constexpr std::size_t max_hops = 8;
template <class Hops>
struct basic_path {
  Hops hops{};
  cost price{};
  double score = 0;
};
using path = basic_path<static_vector<hop, max_hops>>;

namespace detail {

/// The last hop of a path and how many there are: all that a price needs, and much less to copy.
struct last_hop {
  hop last{};
  std::size_t count = 0;

  constexpr bool empty() const { return count == 0; }
  constexpr bool full() const { return count == max_hops; }
  constexpr hop& back() { return last; }
  constexpr void push_back(const hop& h) {
    last = h;
    ++count;
  }
};
using all_hops = static_vector<hop, max_hops>;

constexpr void append_hops(last_hop& to, const last_hop& more) {
  if (more.count != 0) to.last = more.last;
  to.count += more.count;
}
constexpr void append_hops(all_hops& to, const all_hops& more) {
  for (const hop& h : more) to.push_back(h);
}
/// One all-to-all: axes that end the list of one dim and continue that of another.
struct turn {
  axis_set moving = 0;
  layout turned{};
  bool possible = true;
};

/// Search for the cheapest path between two layouts of one value.
template <class Hops>
struct path_search {
  using path = basic_path<Hops>;
  const shape& global;
  std::int64_t element_bytes;
  const axis_sizes& sizes;
  const policy& rule;

  constexpr bool append(path& p, layout& at, kind move, unsigned axes, const layout& to) const {
    if (at.word == to.word) return true;
    const hop h{move, axes, to};
    p.price += price_of(h, at, global, element_bytes, sizes);
    p.score = rule.score(p.price);
    if (p.hops.full()) return false;
    p.hops.push_back(h);
    at = to;
    return true;
  }

  /// The layout after every slice that costs nothing: axes that nothing uses yet, appended if the target has them.
  constexpr layout sliced_towards(const layout& from, const layout& to) const {
    layout l = from;
    const unsigned used = from.used(), changed = from.differs_at(to);
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      std::uint32_t want = to.packed_axes(i);
      const std::uint32_t have = from.packed_axes(i);
      if (have != 0 && !axis_list::starts_with(want, have)) continue;
      // The number of the position, and above it the rank of the next axis.
      std::uint64_t place = static_cast<std::uint64_t>(i + 1);
      for (std::uint32_t p = have; p != 0; p >>= 4, want >>= 4) place += 16;
      for (; want != 0; want >>= 4, place += 16) {
        const std::uint32_t axis = (want & 15u) - 1u;
        if ((used >> axis & 1) != 0) break;
        l.word |= place << (layout::bits_per_axis * axis);
      }
    }
    return l;
  }

  constexpr turn turn_towards(const layout& at, const layout& to) const {
    turn t{};
    const unsigned after = to.sharded_bits(), changed = at.differs_at(to);
    std::uint32_t have[max_rank] = {}, want[max_rank] = {};
    unsigned moving = 0;
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      have[i] = at.packed_axes(i);
      want[i] = to.packed_axes(i);
      std::uint32_t mine = have[i], theirs = want[i];
      for (; mine != 0 && (mine & 15u) == (theirs & 15u); theirs >>= 4) mine >>= 4;
      for (; mine != 0; mine >>= 4) moving |= 1u << ((mine & 15u) - 1u) & after;
    }
    t.moving = moving;
    // The part of each list that stays when its last axes move away.
    std::uint32_t stays[max_rank] = {};
    std::uint64_t turned = at.word;
    for (int i = 0; i < global.rank; ++i) {
      const std::uint32_t list = have[i];
      std::uint32_t left = 0;
      int shift = 0;
      for (std::uint32_t p = list; p != 0; p >>= 4, shift += 4)
        if ((moving >> ((p & 15u) - 1u) & 1) == 0) left = list & ((16u << shift) - 1u);
      std::uint32_t gone = list;
      for (std::uint32_t p = left; p != 0; p >>= 4, gone >>= 4)
        if ((moving >> ((p & 15u) - 1u) & 1) != 0) return {moving, at, false};
      for (; gone != 0; gone >>= 4) turned &= ~(std::uint64_t{127} << (layout::bits_per_axis * ((gone & 15u) - 1u)));
      stays[i] = left;
    }
    // And the axes that move to it.
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0 || !axis_list::starts_with(want[i], stays[i])) continue;
      std::uint32_t reached = stays[i], next = want[i];
      std::uint64_t place = static_cast<std::uint64_t>(i + 1);
      int shift = 0;
      for (std::uint32_t p = reached; p != 0; p >>= 4, next >>= 4, shift += 4) place += 16;
      for (; next != 0; next >>= 4, shift += 4, place += 16) {
        const std::uint32_t axis = (next & 15u) - 1u;
        if ((moving >> axis & 1) == 0) break;
        reached |= (next & 15u) << shift;
        turned = (turned & ~(std::uint64_t{127} << (layout::bits_per_axis * axis))) |
                 place << (layout::bits_per_axis * axis);
      }
      if (reached != stays[i] && have[i] != 0 && !axis_list::starts_with(reached, have[i])) return {moving, at, false};
    }
    t.turned.word = turned;
    t.possible = (t.turned.sharded_bits() & moving) == moving;
    return t;
  }

  /// Without partial values. Slices first, then axes that change dims in one all-to-all, then gathers; if lists do not
  /// nest like this, or that costs more, one exchange in which every device receives only the elements that it lacks.
  constexpr path whole(const layout& from, const layout& to) const {
    path direct;
    if (from.word == to.word) return direct;
    const unsigned before = from.sharded_bits(), after = to.sharded_bits();
    layout at = from;
    if (to.continues(from)) {
      append(direct, at, kind::slice, after & ~before, to);
      return direct;
    }
    if (from.continues(to)) {
      append(direct, at, kind::all_gather, before & ~after, to);
      return direct;
    }
    append(direct, at, kind::collective_permute, before | after, to);

    path staged;
    at = from;
    const layout sliced = sliced_towards(from, to);
    append(staged, at, kind::slice, sliced.sharded_bits() & ~before, sliced);
    const turn t = turn_towards(at, to);
    if (!t.possible) return direct;
    const bool fits = append(staged, at, kind::all_to_all, t.moving, t.turned) && at.continues(to);
    if (!fits) return direct;
    append(staged, at, kind::all_gather, at.sharded_bits() & ~after, to);
    return staged.score <= direct.score ? staged : direct;
  }

  /// Tries every way to place the partial axes: scattered onto some dim, or reduced everywhere.
  constexpr void place(const path& so_far, const layout& at, const layout& to, path& best, bool& any) const {
    if (any && so_far.score >= best.score) return;
    const unsigned before = at.partial_bits(), left = before & ~to.partial_bits();
    {
      path p = so_far;
      layout l = at, reduced = at;
      reduced.set_partial(to.partial_bits(), at.combine());
      bool fits = append(p, l, kind::all_reduce, left, reduced);
      // A more expensive path does not become cheaper.
      if (!any || p.score < best.score) {
        const path rest = whole(l, to);
        fits = fits && p.hops.count + rest.hops.count <= max_hops;
        if (fits) append_hops(p.hops, rest.hops);
        p.price += rest.price;
        p.score = rule.score(p.price);
        if (fits && (!any || p.score < best.score)) {
          best = p;
          any = true;
        }
      }
      // If that is the target, a reduce-scatter onto a dim that divides evenly and an all-gather move the same bytes in
      // no fewer messages, unless there is no byte.
      if (reduced == to && p.price.bytes > so_far.price.bytes) return;
    }
    for (int a = 0; (left >> a) != 0; ++a) {
      if ((left >> a & 1) == 0) continue;
      for (int i = 0; i < global.rank; ++i) {
        layout l = at;
        l.append(i, a);
        l.set_partial(before & ~(1u << a), at.combine());
        axis_list list;
        list.packed = l.packed_axes(i);
        if (!axis_list::starts_with(to.packed_axes(i), list.packed) && global.extent[i] % sizes.product(list) != 0)
          continue;
        path p = so_far;
        layout reached = at;
        if (!p.hops.empty() && p.hops.back().move == kind::reduce_scatter) {
          // one reduce-scatter over both axes instead of two
          const cost step = price_of({kind::reduce_scatter, axis_bit(a), l}, at, global, element_bytes, sizes);
          p.hops.back().to = l;
          p.hops.back().axes = p.hops.back().axes | axis_bit(a);
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

/// The cheapest path, with its hops or without.
template <class Hops>
constexpr basic_path<Hops> cheapest_path(const shape& global, std::int64_t element_bytes, const layout& from,
                                         const layout& to, const axis_sizes& sizes, const policy& rule) {
  basic_path<Hops> found;
  if (from == to) return found;
  const path_search<Hops> search{global, element_bytes, sizes, rule};
  // A partial value stays partial only under the same reduction.
  const axis_set kept = from.combine() == to.combine() ? static_cast<axis_set>(to.unreduced() & from.unreduced())
                                                       : axis_set{0};
  const axis_set fresh = to.unreduced() & ~kept;
  layout target = to;
  target.set_partial(kept, from.combine());
  if ((from.unreduced() & ~target.unreduced()) == 0) {
    found = search.whole(from, target);
  } else {
    basic_path<Hops> start;
    layout at = from;
    const layout sliced = search.sliced_towards(from, target);
    search.append(start, at, kind::slice, sliced.sharded() & ~from.sharded(), sliced);
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

} // namespace detail

/// The cheapest way from one layout to another, for values of the given global extents: free slices first, then the
/// partial axes (reduce-scatter onto any dim, or all-reduce), then one exchange at most; everything priced by the
/// policy. Never through a replicated copy unless the target is replicated. Communication: that of the hops.
constexpr path find_path(const shape& global, std::int64_t element_bytes, const layout& from, const layout& to,
                         const axis_sizes& sizes, const policy& rule) {
  return detail::cheapest_path<detail::all_hops>(global, element_bytes, from, to, sizes, rule);
}
/// The score of that path.
constexpr double path_score(const shape& global, std::int64_t element_bytes, const layout& from, const layout& to,
                            const axis_sizes& sizes, const policy& rule) {
  return detail::cheapest_path<detail::last_hop>(global, element_bytes, from, to, sizes, rule).score;
}

}} // namespace cleave::v0
