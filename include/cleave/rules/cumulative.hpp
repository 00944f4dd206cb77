// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

constexpr void place_cumulative(const node& n, const strategy&, placed_op& o) {
  o.along = n.which[0];
  o.over = o.axes_along().mask();
}
/// What running totals along a dim move: an exclusive prefix scan of one value of each slice.
constexpr cost moves_of_cumulative(const placed_op& o, const sizes& s) {
  const std::int64_t devices = s.axes.product(o.over);
  if (devices == 1) return {};
  std::int64_t slices = 1;
  for (int i = 0; i < o.out.type->rank; ++i)
    if (const dim_id d = (*o.out.type)[i]; d != o.along)
      slices = times(slices, block_extent(s[d], s.axes.product(o.out.where[i])));
  return {slices * size_of(o.out.type->element), slices > 0 ? collectives::rounds(devices) : 0};
}

constexpr void emit_cumulative(const node& n, const placed_op& o, step& s) {
  s.combine = n.combine;
  s.backwards = n.backwards;
  s.exclusive = n.exclusive;
  s.k.append(o.along);
}

inline constexpr op_rules cumulative{
    .what = op_class::cumulative,
    .factors = &factors_by_name,
    .place = &place_cumulative,
    .moves = &moves_of_cumulative,
    .emit = &emit_cumulative,
    .kind_of_step = step_kind::scan,
    .collective = kind::scan,
    .reason = "each device continues where the one before it ends",
};

} // namespace cleave::rules
