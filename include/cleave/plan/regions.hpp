// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/choose.hpp>

namespace cleave {

namespace detail {

/// Operations that look at a shard and what is around it share one region of their operand, and so one exchange: all neighbours
/// of a stencil come at once.
struct region_finder {
  const graph& g;
  const std::vector<strategy>& chosen;
  const sizes& at;

  struct found_region {
    node_id operand;
    region_shape shape;
    /// What each of those who share it needs.
    std::vector<region_shape> members{};
    std::int64_t bytes = 0;
  };
  static constexpr std::size_t none = ~std::size_t{0};
  std::vector<found_region> regions{};
  /// By node.
  std::vector<std::size_t> region_of{};

  /// Whether a node reads each dim of its operand at a fixed distance.
  constexpr bool looks_around(const node& n) const {
    if (class_of(n.code) != op_class::remap || n.arity != 1 || n.maps > 3) return false;
    const tensor_type& from = g.nodes[n.in[0]].type;
    dim_set seen = 0;
    for (const dim_map& m : maps_of(g, n)) {
      if (m.divisor != 1 || m.stride < 1 || m.at_run_time != 0 || !m.offset.terms.empty() || (seen & dim_bit(m.to)) != 0) return false;
      if (m.window != no_dim ? from.has(m.window) : m.stride != 1) return false;
      seen |= dim_bit(m.to);
    }
    return true;
  }

  constexpr region_shape region_around(const node& n, const strategy& s) const {
    region_shape r;
    r.type = g.nodes[n.in[0]].type;
    r.taken = required(n, factors_of(g, n), s, 0);
    for (int i = 0; i < r.type.rank; ++i) {
      const int same = n.type.find(r.type[i]);
      if (same >= 0) r.made.set(i, s.out[same]);
    }
    r.made.set_partial(s.out.unreduced(), s.out.combine());
    for (const dim_map& m : maps_of(g, n)) {
      dim_map along = m;
      along.window = no_dim;
      along.dilation = m.window == no_dim ? 0 : m.dilation * (at[m.window] > 0 ? at[m.window] - 1 : 0);
      r.made.set(r.type.find(m.from), s.out[n.type.find(m.to)]);
      r.maps.push_back(along);
    }
    r.parts = needed_parts(r, r);
    return r;
  }
  /// The parts of a region that one of those who share it needs.
  static constexpr std::uint32_t needed_parts(const region_shape& shared, const region_shape& one) {
    std::uint32_t parts = 0;
    for (std::uint32_t part = 0; part < parts_of(shared.maps.size()); ++part) {
      bool needed = true;
      for (std::size_t m = 0; m < shared.maps.size(); ++m) {
        const int digit = digit_of(part, m);
        if (digit == 1) continue;
        bool reaches = false;
        for (const dim_map& own : one.maps)
          if (own.from == shared.maps[m].from && surrounds(own)) reaches = digit == 0 ? own.offset.constant < 0 : own.offset.constant + own.dilation > 0;
        needed = needed && reaches;
      }
      if (needed) parts |= 1u << part;
    }
    return parts;
  }

  /// One region for both, if that is possible.
  static constexpr bool unite(const region_shape& a, const region_shape& b, region_shape& both) {
    if (!(a.taken == b.taken) || !(a.made == b.made)) return false;
    both = a;
    for (const dim_map& m : b.maps) {
      bool known = false;
      for (dim_map& have : both.maps) {
        if (have.from != m.from) continue;
        if (have.to != m.to || have.stride != m.stride || have.outside != m.outside) return false;
        known = true;
        const std::int64_t low = std::min(have.offset.constant, m.offset.constant);
        have.dilation = std::max(have.offset.constant + have.dilation, m.offset.constant + m.dilation) - low;
        have.offset.constant = low;
      }
      if (known) continue;
      if (!surrounds(m) || both.maps.full()) return false;
      both.maps.push_back(including_block(m));
    }
    for (dim_map& have : both.maps) {
      bool shared = false;
      for (const dim_map& m : b.maps) shared = shared || m.from == have.from;
      if (shared) continue;
      if (!surrounds(have)) return false;
      have = including_block(have);
    }
    return true;
  }
  static constexpr dim_map including_block(dim_map m) {
    const std::int64_t high = std::max<std::int64_t>(m.offset.constant + m.dilation, 0);
    m.offset.constant = std::min<std::int64_t>(m.offset.constant, 0);
    m.dilation = high - m.offset.constant;
    return m;
  }

  constexpr void find() {
    region_of.assign(g.nodes.size(), none);
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      if (!looks_around(n)) continue;
      const region_shape own = region_around(n, chosen[v]);
      const std::int64_t bytes = region_cost(own, at).bytes;
      for (std::size_t r = 0; r < regions.size() && region_of[v] == none; ++r) {
        region_shape both;
        if (regions[r].operand != n.in[0] || !unite(regions[r].shape, own, both)) continue;
        both.parts = needed_parts(both, own);
        for (const region_shape& member : regions[r].members) both.parts |= needed_parts(both, member);
        const std::int64_t together = region_cost(both, at).bytes;
        if (together > regions[r].bytes + bytes) continue;
        // What lies between far apart places would be copied for nothing.
        bool near = true;
        for (const dim_map& m : both.maps) near = near && m.dilation <= 64;
        if (!near) continue;
        regions[r].shape = both;
        regions[r].bytes = together;
        regions[r].members.push_back(own);
        region_of[v] = r;
      }
      if (region_of[v] != none) continue;
      region_of[v] = regions.size();
      regions.push_back({n.in[0], own, {own}, bytes});
    }
  }
};

} // namespace detail

} // namespace cleave
