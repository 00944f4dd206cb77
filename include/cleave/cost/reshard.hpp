// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/static_vector.hpp>
#include <cleave/cost/collective.hpp>

namespace cleave::inline v0 {

/// How a value goes from one layout to another.
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
  constexpr layout sliced_towards(const layout& from, const layout& to) const {
    layout l = from;
    const unsigned used = from.used(), changed = from.differs_at(to);
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      const axis_list have = from[i], want = to[i];
      if (!want.starts_with(have)) continue;
      const int size = want.size();
      for (int j = have.size(); j < size && (used >> want[j] & 1) == 0; ++j) l.append(i, want[j]);
    }
    return l;
  }

  constexpr turn turn_towards(const layout& at, const layout& to) const {
    turn t{0, at, true};
    const unsigned after = to.sharded(), changed = at.differs_at(to);
    unsigned moving = 0;
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      const axis_list have = at[i];
      moving |= have.without(have.common_prefix(to[i])).mask() & after;
    }
    t.moving = moving;
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      const axis_list have = at[i];
      int kept = have.size();
      while (kept > 0 && (moving >> have[kept - 1] & 1) != 0) --kept;
      const axis_list left = have.prefix(kept);
      t.turned.set(i, left);
      t.possible = t.possible && (left.mask() & moving) == 0;
    }
    for (int i = 0; i < global.rank && t.possible; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      const axis_list have = at[i], want = to[i], left = t.turned[i];
      if (!want.starts_with(left)) continue;
      axis_list reached = left;
      const int size = want.size();
      for (int j = left.size(); j < size && (moving >> want[j] & 1) != 0; ++j) reached.push_back(want[j]);
      t.turned.set(i, reached);
      t.possible = reached == left || have.empty() || reached.starts_with(have);
    }
    t.possible = t.possible && (t.turned.sharded() & moving) == moving;
    return t;
  }

  /// Without partial values. Slices first, then axes that change dims in one all-to-all, then what must be gathered;
  /// where lists do not nest like this, or that costs more, one exchange in which every device receives just what it
  /// lacks.
  constexpr path whole(const layout& from, const layout& to) const {
    path direct;
    if (from == to) return direct;
    const bool grows = to.continues(from), shrinks = from.continues(to);
    const axis_set before = from.sharded(), after = to.sharded();
    layout at = from;
    if (grows) {
      append(direct, at, kind::slice, after & ~before, to);
      return direct;
    }
    if (shrinks) {
      append(direct, at, kind::all_gather, before & ~after, to);
      return direct;
    }
    append(direct, at, kind::collective_permute, before | after, to);

    path staged;
    at = from;
    const layout sliced = sliced_towards(from, to);
    append(staged, at, kind::slice, sliced.sharded() & ~before, sliced);
    const turn t = turn_towards(at, to);
    if (!t.possible) return direct;
    const bool fits = append(staged, at, kind::all_to_all, t.moving, t.turned) && at.continues(to);
    if (!fits) return direct;
    append(staged, at, kind::all_gather, at.sharded() & ~after, to);
    return staged.score <= direct.score ? staged : direct;
  }

  /// Tries every way to place the partial axes: scattered onto some dim, or reduced everywhere.
  constexpr void place(const path& so_far, const layout& at, const layout& to, path& best, bool& any) const {
    const axis_set left = at.unreduced() & ~to.unreduced();
    if (any && so_far.score >= best.score) return;
    {
      path p = so_far;
      layout l = at, reduced = at;
      reduced.set_partial(to.unreduced(), at.combine());
      bool fits = append(p, l, kind::all_reduce, left, reduced);
      const path rest = whole(l, to);
      fits = fits && p.hops.count + rest.hops.count <= max_hops;
      if (fits) append_hops(p.hops, rest.hops);
      p.price += rest.price;
      p.score = rule.score(p.price);
      if (fits && (!any || p.score < best.score)) {
        best = p;
        any = true;
      }
      // Where that is all, a reduce-scatter onto a dim that divides evenly and an all-gather move the same bytes in no
      // fewer messages, unless there is no byte.
      if (reduced == to && p.price.bytes > so_far.price.bytes) return;
    }
    for (int a = 0; (left >> a) != 0; ++a) {
      if ((left >> a & 1) == 0) continue;
      for (int i = 0; i < global.rank; ++i) {
        layout l = at;
        l.append(i, a);
        l.set_partial(at.unreduced() & ~axis_bit(a), at.combine());
        const bool asked = to[i].starts_with(l[i]);
        if (!asked && global[i] % sizes.product(l[i]) != 0) continue;
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
/// policy. Never through a replicated copy unless that is what is asked. Communication: as the hops say.
constexpr path find_path(const shape& global, std::int64_t element_bytes, const layout& from, const layout& to,
                         const axis_sizes& sizes, const policy& rule) {
  return detail::cheapest_path<detail::all_hops>(global, element_bytes, from, to, sizes, rule);
}
/// What that costs.
constexpr double path_score(const shape& global, std::int64_t element_bytes, const layout& from, const layout& to,
                            const axis_sizes& sizes, const policy& rule) {
  return detail::cheapest_path<detail::last_hop>(global, element_bytes, from, to, sizes, rule).score;
}

} // namespace cleave::inline v0
