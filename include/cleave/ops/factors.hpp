// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/table.hpp>

namespace cleave {

/// The factors of a node: each dim that may be divided, and where it stands in every operand (0 to 2) and in the result
/// (3); -1 where it does not appear. As Shardy's sharding rules; by-name dims make one rule serve almost every op.
struct factor {
  std::int8_t at[4] = {-1, -1, -1, -1};
  /// Contracted or reduced: dividing it leaves a partial value.
  bool reduced = false;
};

using factor_list = static_vector<factor, 16>;
inline constexpr int in_result = 3;

/// Whether a split or merge may keep its major dim divided over these axes: the blocks of the whole dim are then whole
/// rows of the minor one. Known for fixed sizes, or promised; elsewhere the dim is taken whole.
constexpr bool view_keeps(const graph& g, dim_id major, axis_list list) {
  if (list.empty()) return true;
  const dim_info& d = g.dims[major];
  if (d.divisible) return true;
  if (d.extent == dynamic) return false;
  std::int64_t parts = 1;
  for (int i = 0; i < list.size(); ++i) {
    const std::int64_t size = g.mesh.axes[static_cast<std::size_t>(list[i])].size;
    if (size == dynamic) return false;
    parts *= size;
  }
  return d.extent % parts == 0;
}

/// The dim of a split or merge that may stay divided, by its result position; -1 for other ops.
constexpr int kept_position(const node& n) {
  if (n.code == op::split) return n.type.find(n.which[1]);
  if (n.code == op::merge) return n.type.find(n.which[2]);
  return -1;
}
constexpr dim_id kept_dim(const node& n) { return n.code == op::split ? n.which[1] : n.which[0]; }

constexpr factor_list factors_of(const graph& g, const node& n) {
  factor_list list;
  const auto position = [](const tensor_type& t, dim_id d) { return static_cast<std::int8_t>(t.find(d)); };
  for (int i = 0; i < n.type.rank; ++i) {
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    dim_id d = n.type[i];
    // The operand's name of this dim, where the op gives dims other names.
    if (n.code == op::rename && d == n.which[1]) d = n.which[0];
    if (n.code == op::split && d == n.which[1]) d = n.which[0];
    if (n.code == op::merge && d == n.which[2]) d = n.which[0];
    const bool minor = n.code == op::split && n.type[i] == n.which[2];
    for (int k = 0; k < n.arity; ++k)
      if (!minor) f.at[static_cast<std::size_t>(k)] = position(g.nodes[n.in[static_cast<std::size_t>(k)]].type, d);
    list.push_back(f);
  }
  if (n.over != 0 && n.arity > 0) {
    const tensor_type& first = g.nodes[n.in[0]].type;
    for (int i = 0; i < first.rank; ++i) {
      if ((n.over & dim_bit(first[i])) == 0) continue;
      factor f;
      f.reduced = true;
      f.at[0] = static_cast<std::int8_t>(i);
      if (n.arity > 1) f.at[1] = position(g.nodes[n.in[1]].type, first[i]);
      list.push_back(f);
    }
  }
  return list;
}

} // namespace cleave
