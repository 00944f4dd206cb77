// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/candidates.hpp>

namespace cleave::detail {

/// What nodes and their surroundings look like.
struct looked_at_strategies : candidate_strategies {
  using candidate_strategies::candidate_strategies;

  /// What a node and its surroundings look like, and the looks for which nothing better was found: layers are alike, so most
  /// of a deep model need not be searched again.
  std::vector<std::uint64_t> look{};
  std::vector<std::uint8_t> looks_so{};
  std::vector<std::vector<std::uint64_t>> settled_looks = std::vector<std::vector<std::uint64_t>>(64);

  /// Distance up to which surroundings are part of a look. Residual layers are one step apart.
  static constexpr int seen_around = 3;
  static constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return (a ^ b) * 0x9e3779b97f4a7c15u + (a >> 29); }
  constexpr void take_looks() {
    const std::size_t count = g.nodes.size();
    look.assign(count, 0);
    looks_so.assign(count, 1);
    for (std::size_t v = 0; v < count; ++v) {
      const node& n = node_at(v);
      const strategy& s = chosen[v];
      std::uint64_t h = mixed(static_cast<std::uint64_t>(n.code) + (std::uint64_t{n.pinned} << 8) + (static_cast<std::uint64_t>(n.combine) << 16) + (std::uint64_t{n.loop} << 24), n.over);
      for (int i = 0; i < n.type.rank; ++i) h = mixed(h, n.type[i] + (std::uint64_t{s.out[i].packed} << 8));
      for (const axis_list& list : s.over) h = mixed(h, list.packed);
      for (dim_id d : n.which) h = mixed(h, d);
      look[v] = mixed(h, s.out.unreduced + 256u * s.pass + 65536u * s.bringers + (static_cast<std::uint64_t>(n.type.element) << 24));
    }
    for (std::size_t r = 0; r < g.outputs.size(); ++r) {
      const layout asked = output_of(r);
      for (int i = 0; i < g.output_types[r].rank; ++i) look[g.outputs[r]] = mixed(look[g.outputs[r]], asked[i].packed + 7u);
    }
    std::vector<std::uint64_t> before;
    for (int distance = 0; distance < seen_around; ++distance) {
      before = look;
      for (std::size_t v = 0; v < count; ++v) {
        for (int k = 0; k < node_at(v).arity; ++k) look[v] = mixed(look[v], before[node_at(v).in[static_cast<std::size_t>(k)]]);
        std::uint64_t readers = 0;
        for (std::size_t e = first_edge[v]; e < first_edge[v + 1]; ++e) readers += mixed(before[edges[e].to], edges[e].operand);
        look[v] = mixed(look[v], readers);
      }
    }
  }
  constexpr bool seen_before(std::size_t v) const {
    if (looks_so[v] == 0) return false;
    for (std::uint64_t known : settled_looks[look[v] >> 58])
      if (known == look[v]) return true;
    return false;
  }
};

} // namespace cleave::detail
