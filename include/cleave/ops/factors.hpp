// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/remap.hpp>

namespace cleave {

/// The factors of a node: each dim that may be divided, and where it stands in every operand and in the result
/// (`in_result`); -1 where it does not appear. As Shardy's sharding rules; by-name dims make one rule serve almost every op.
struct factor {
  std::int8_t at[max_arity + 1] = {-1, -1, -1, -1, -1, -1, -1};
  /// Contracted or reduced: dividing it leaves a partial value.
  bool reduced = false;
  /// Of a split dim, or of one that is merged: where its minor part stands, in the result or in the operand; else -1.
  std::int8_t minor = -1;
  /// Of an operand of which a step fetches what it lacks: where its own axes stand in strategy::taken; else -1.
  std::int8_t taken = -1;
  /// Of an operand of a local call: divided over these axes and nothing else.
  bool pinned = false;
  axis_list pin{};
};

using factor_list = static_vector<factor, 16>;
inline constexpr int in_result = max_arity;

/// The axes that divide a dim which is split or merged, as they divide its two parts.
struct view_parts {
  axis_list major{}, minor{};
  /// False where the blocks of the whole dim are no blocks of the parts: then only a prefix of its axes is kept.
  bool exact = true;
};

namespace detail {
/// The number of devices of a list of axes, `dynamic` where it is not known.
constexpr std::int64_t devices_of(const graph& g, axis_list list) {
  std::int64_t parts = 1;
  for (int i = 0; i < list.size(); ++i) {
    const std::int64_t size = g.mesh.axes[static_cast<std::size_t>(list[i])].size;
    if (size == dynamic) return dynamic;
    parts *= size;
  }
  return parts;
}
} // namespace detail

/// Blocks of the whole dim are whole rows of the minor one where the major dim divides evenly; or, where the first axes have
/// just one device an index of the major dim, blocks of the minor one, if that divides evenly over the others. Known for
/// fixed sizes, or promised.
constexpr view_parts parts_of_view(const graph& g, const node& n, axis_list whole) {
  const dim_info &major = g.dims[n.code == op::split ? n.which[1] : n.which[0]], &minor = g.dims[n.code == op::split ? n.which[2] : n.which[1]];
  const auto divides = [&](const dim_info& d, axis_list list) {
    if (list.empty() || d.divisible) return true;
    const std::int64_t devices = detail::devices_of(g, list);
    return d.extent != dynamic && devices != dynamic && d.extent % devices == 0;
  };
  for (int kept = whole.size(); kept > 0; --kept) {
    const axis_list list = whole.prefix(kept);
    const bool exact = kept == whole.size();
    if (divides(major, list)) return {list, {}, exact};
    for (int cut = 0; cut < kept; ++cut)
      if (major.extent != dynamic && major.extent == detail::devices_of(g, list.prefix(cut)) && divides(minor, list.without(cut)))
        return {list.prefix(cut), list.without(cut), exact};
  }
  return {{}, {}, whole.empty()};
}

namespace detail {
constexpr std::int8_t position_of(const tensor_type& t, dim_id d) { return static_cast<std::int8_t>(t.find(d)); }

/// Dims that a map names are divided on both sides as each side likes; those of windows are whole; the others are common.
constexpr factor_list factors_of_remap(const graph& g, const node& n) {
  factor_list list;
  dim_set mapped = 0;
  for (int m = 0; m < n.maps; ++m) {
    const dim_map& map = g.maps[static_cast<std::size_t>(n.first_map + m)];
    factor f;
    f.at[map.operand] = position_of(g.nodes[n.in[map.operand]].type, map.from);
    if ((mapped & dim_bit(map.to)) == 0) f.at[in_result] = position_of(n.type, map.to);
    f.taken = static_cast<std::int8_t>(m);
    list.push_back(f);
    mapped |= dim_bit(map.to);
    if (map.window != no_dim) mapped |= dim_bit(map.window);
  }
  for (int i = 0; i < n.type.rank; ++i) {
    if ((mapped & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(g.nodes[n.in[static_cast<std::size_t>(k)]].type, n.type[i]);
    list.push_back(f);
  }
  return list;
}
} // namespace detail

constexpr factor_list factors_of(const graph& g, const node& n) {
  if (class_of(n.code) == op_class::remap) return detail::factors_of_remap(g, n);
  factor_list list;
  const auto position = [](const tensor_type& t, dim_id d) { return detail::position_of(t, d); };
  for (int i = 0; i < n.type.rank; ++i) {
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    dim_id d = n.type[i];
    // The operand's name of this dim, where the op gives dims other names.
    if (n.code == op::rename && d == n.which[1]) d = n.which[0];
    if (n.code == op::split && d == n.which[1]) d = n.which[0];
    if (n.code == op::merge && d == n.which[2]) d = n.which[0];
    // Stacked by a loop, index by index.
    if (n.code == op::collect && i == 0) continue;
    if (n.code == op::call && (n.local || (n.over & dim_bit(d)) != 0)) continue;
    const bool minor = n.code == op::split && n.type[i] == n.which[2];
    if (n.code == op::split && n.type[i] == n.which[1]) f.minor = static_cast<std::int8_t>(i + 1);
    if (n.code == op::merge && n.type[i] == n.which[2]) f.minor = position(g.nodes[n.in[0]].type, n.which[1]);
    for (int k = 0; k < n.arity; ++k)
      if (!minor) f.at[static_cast<std::size_t>(k)] = position(g.nodes[n.in[static_cast<std::size_t>(k)]].type, d);
    list.push_back(f);
  }
  if (n.code == op::gather) {
    factor f;
    f.at[0] = position(g.nodes[n.in[0]].type, n.which[0]);
    f.taken = 0;
    list.push_back(f);
  }
  if (n.local) {
    for (int k = 0; k < n.arity; ++k) {
      const node& from = g.nodes[n.in[static_cast<std::size_t>(k)]];
      for (int i = 0; i < from.type.rank && from.code == op::reshard; ++i) {
        if (from.pin[i].empty()) continue;
        factor f;
        f.at[k] = static_cast<std::int8_t>(i);
        f.pinned = true;
        f.pin = from.pin[i];
        list.push_back(f);
      }
    }
  } else if (n.over != 0 && n.arity > 0 && n.code != op::call) {
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
