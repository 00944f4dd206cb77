// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

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

/// A view's dims: rename {from, to}, split {whole, major, minor}, merge {major, minor, whole}.
struct view_dims {
  dim_id whole = no_dim, major = no_dim, minor = no_dim;
};
constexpr view_dims dims_of_view(const node& n) {
  if (n.code == op::split) return {n.which[0], n.which[1], n.which[2]};
  return {n.which[2], n.which[0], n.which[1]};
}

/// Blocks of the whole dim are whole rows of the minor one where the major dim divides evenly; or, where the first axes
/// have just one device an index of the major dim, blocks of the minor one, if that divides evenly over the others.
/// Known for fixed sizes, or promised.
constexpr view_parts parts_of_view(const graph& g, const node& n, axis_list whole) {
  const view_dims dims = dims_of_view(n);
  const dim_info &major = g.dims[dims.major], &minor = g.dims[dims.minor];
  const auto divides = [&](const dim_info& d, axis_list list) {
    if (list.empty() || d.divisible) return true;
    const std::int64_t devices = devices_of(g, list);
    return d.extent != dynamic && devices != dynamic && d.extent % devices == 0;
  };
  for (int kept = whole.size(); kept > 0; --kept) {
    const axis_list list = whole.prefix(kept);
    const bool exact = kept == whole.size();
    if (divides(major, list)) return {list, {}, exact};
    for (int cut = 0; cut < kept; ++cut)
      if (major.extent != dynamic && major.extent == devices_of(g, list.prefix(cut)) &&
          divides(minor, list.without(cut)))
        return {list.prefix(cut), list.without(cut), exact};
  }
  return {{}, {}, whole.empty()};
}

constexpr bool is_merge(const node& n) { return n.code == op::merge; }

/// The same elements under other dims. The major part of a split or merged dim carries the whole dim's factor; blocks
/// of the minor part follow from it.
constexpr void factors_of_view(const graph& g, const node& n, factor_list& list) {
  const tensor_type& from = operand_type(g, n, 0);
  for (int i = 0; i < n.type.rank; ++i) {
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    const dim_id d = n.type[i];
    if (n.code == op::rename) {
      f.at[0] = position_of(from, d == n.which[1] ? n.which[0] : d);
    } else if (const view_dims dims = dims_of_view(n); n.code == op::split) {
      if (d != dims.minor) f.at[0] = position_of(from, d == dims.major ? dims.whole : d);
      if (d == dims.major) f.minor = static_cast<std::int8_t>(i + 1), f.minor_in_result = true;
    } else {
      f.at[0] = position_of(from, d == dims.whole ? dims.major : d);
      if (d == dims.whole) f.minor = position_of(from, dims.minor);
    }
    list.push_back(f);
  }
}

constexpr std::uint32_t traits_of_view(const node& n) { return is_merge(n) ? planner::merges : 0u; }

inline constexpr op_rules view{
    .what = op_class::view,
    .factors = &factors_of_view,
    .parts = &parts_of_view,
    .traits = planner::special,
    .traits_of = &traits_of_view,
};

} // namespace cleave::rules
