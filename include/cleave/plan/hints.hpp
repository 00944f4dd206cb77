// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave { inline namespace v0 {

/// The size that planning assumes for an axis, an extent, or a part of a split dim, if the size is known only at run
/// time.
inline constexpr std::int64_t hinted_axis_size = 4;
inline constexpr std::int64_t hinted_extent = 4096;
inline constexpr std::int64_t hinted_part = 64;

/// Extents of a graph or plan that are fixed or named, and those that follow from them; the rest stays dynamic.
template <class Sized>
constexpr void set_known_extents(const Sized& g, indexed_span<const named_size> named, sizes& s) {
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    s.dims[d] = g.dims[d].extent;
    for (const named_size& n : named)
      if (n.is_of_dim(g.dims[d].name)) s.dims[d] = n.size;
  }
  derive_extents(g.rules, s);
}

/// Whether a size can be that of a dim or an axis: nothing, or the fault.
constexpr verdict check_size(const named_size& n, std::string_view dim, std::string_view axis, std::int64_t fixed,
                             std::int64_t least) {
  if (n.size < least)
    return {least == 0 ? fault::extent_negative : fault::axis_empty, {}, {}, dim, axis, least, n.size};
  if (fixed != dynamic && n.size != fixed) return {fault::size_is_fixed, {}, {}, dim, axis, fixed, n.size};
  return {};
}

/// Whether sizes can be those of the dims and axes that they name. Names that are not there are ignored.
template <class Sized>
constexpr verdict check_sizes(const Sized& g, indexed_span<const named_size> named) {
  for (const named_size& n : named) {
    verdict v;
    for (int a = 0; v.ok() && a < g.mesh.size(); ++a)
      if (const axis_info& axis = g.mesh.axes[a]; n.is_of_axis(axis.name))
        v = check_size(n, {}, axis.name, axis.size, 1);
    for (std::size_t d = 0; v.ok() && d < g.dims.size(); ++d)
      if (const auto& dim = g.dims[d]; n.is_of_dim(dim.name)) v = check_size(n, dim.name, {}, dim.extent, 0);
    if (!v.ok()) return v;
  }
  return {};
}
/// Whether each dim and axis has a size that is fixed, named, or follows from others: nothing, or the fault.
template <class Sized>
constexpr verdict check_all_known(const Sized& g, indexed_span<const named_size> named) {
  for (int a = 0; a < g.mesh.size(); ++a) {
    bool known = g.mesh.axes[a].size != dynamic;
    for (const named_size& n : named) known = known || n.is_of_axis(g.mesh.axes[a].name);
    if (!known) return {fault::size_not_expected, {}, {}, {}, g.mesh.axes[a].name};
  }
  sizes known;
  set_known_extents(g, named, known);
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (known.dims[d] == dynamic) return {fault::size_not_expected, {}, {}, g.dims[d].name};
  return {};
}
/// Whether a graph or plan has the dim or the axis of that name.
template <class Sized>
constexpr bool has_name(const Sized& g, const named_size& n) {
  if (n.name.empty()) return true; // has been refused already
  for (int a = 0; a < g.mesh.size(); ++a)
    if (n.is_of_axis(g.mesh.axes[a].name)) return true;
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (n.is_of_dim(g.dims[d].name)) return true;
  return false;
}

/// Sizes for a graph or plan: fixed ones, the named ones, those that follow from them, and hints for the rest.
template <class Sized>
constexpr sizes sizes_for(const Sized& g, indexed_span<const named_size> named = {}) {
  sizes s;
  for (int a = 0; a < g.mesh.size(); ++a) {
    const axis_info& axis = g.mesh.axes[a];
    s.axes[a] = axis.size == dynamic ? hinted_axis_size : axis.size;
    for (const named_size& n : named)
      if (n.is_of_axis(axis.name)) s.axes[a] = n.size;
  }
  set_known_extents(g, named, s);
  // Hints for open extents, parts of a product before the whole.
  for (const dim_product& p : g.rules.products)
    for (int i : {1, 2})
      if (p[2] != no_dim && s.dims[p[i]] == dynamic) {
        s.dims[p[i]] = hinted_part;
        derive_extents(g.rules, s);
      }
  const auto follows = [&](std::size_t d) {
    for (const derived_extent& rule : g.rules.derived)
      if (rule.dim == d) return true;
    return false;
  };
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (s.dims[d] == dynamic && !follows(d)) s.dims[d] = hinted_extent;
  derive_extents(g.rules, s);
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (s.dims[d] == dynamic) s.dims[d] = hinted_extent;
  return s;
}

}} // namespace cleave::v0
