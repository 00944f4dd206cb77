// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_span.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave::inline v0 {

/// The size that planning assumes for an axis, an extent, or a part of a split dim, if the size is known only at run
/// time.
inline constexpr std::int64_t hinted_axis_size = 4;
inline constexpr std::int64_t hinted_extent = 4096;
inline constexpr std::int64_t hinted_part = 64;

/// Extents of a graph or plan that are fixed or named, and what follows from them; the rest stays dynamic.
template <class Sized>
constexpr void set_known_extents(const Sized& g, indexed_span<const named_size> named, sizes& s) {
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    s.dims[d] = g.dims[d].extent;
    for (const named_size& n : named)
      if (n.name == g.dims[d].name) s.dims[d] = n.size;
  }
  derive_extents(g.rules, s);
}

/// Sizes for a graph or plan: fixed ones, the named ones, what follows from them, and hints for the rest.
template <class Sized>
constexpr sizes sizes_for(const Sized& g, indexed_span<const named_size> named = {}) {
  sizes s;
  for (int a = 0; a < g.mesh.size(); ++a) {
    const axis_info& axis = g.mesh.axes[a];
    s.axes[a] = axis.size == dynamic ? hinted_axis_size : axis.size;
    for (const named_size& n : named)
      if (n.name == axis.name) s.axes[a] = n.size;
  }
  set_known_extents(g, named, s);
  // Hints for what is still open, parts of a product before the whole.
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

} // namespace cleave::inline v0
