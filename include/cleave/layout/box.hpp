// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/blocks.hpp>

namespace cleave::inline v0 {

/// The part of a tensor that one device holds, or a part of that: a range of global indices for each dim.
struct box {
  fixed_array<range, max_rank> along{};
  int rank = 0;

  constexpr range& operator[](std::integral auto i) { return along.items[i]; }
  constexpr range operator[](std::integral auto i) const { return along.items[i]; }
  constexpr shape extents() const {
    shape s;
    s.rank = rank;
    for (int i = 0; i < rank; ++i) s[i] = along[i].size();
    return s;
  }
  constexpr std::int64_t elements() const { return extents().elements(); }
  constexpr bool empty() const { return elements() == 0; }
  constexpr bool inside(const box& other) const {
    for (int i = 0; i < rank; ++i)
      if (along[i].begin < other[i].begin || along[i].end > other[i].end) return empty();
    return true;
  }
  friend constexpr bool operator==(const box&, const box&) = default;
};

/// What a device holds.
constexpr box box_of(const shape& global, const layout& l, const coordinates& at, const axis_sizes& sizes) {
  box b;
  b.rank = global.rank;
  for (int i = 0; i < global.rank; ++i) b[i] = held(global[i], l[i], at, sizes);
  return b;
}

constexpr box intersect(const box& a, const box& b) {
  box c = a;
  for (int i = 0; i < a.rank; ++i) c[i] = intersect(a[i], b[i]);
  return c;
}

} // namespace cleave::inline v0
