// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/movement.hpp>
#include <cleave/record/numbered_names.hpp>

namespace cleave::nn {

namespace detail {
/// The halves of a dim, called by its number: heads may have several extents.
inline constexpr auto halves_of_dims = cleave::detail::numbered_names("half ");
} // namespace detail

/// Rotary position embedding (Su et al. 2021). Pairs of elements along `head`, element i and the one half the extent
/// later, are rotated by the angle `at` * base^(-2 i / extent); halves are as in GPT-NeoX. `at` are integers with dims
/// of x, such as `iota(x, position)`. The extent of `head` is even. No communication unless `head` is sharded.
constexpr value rotary(operand x, const value& at, dim_ref head, double base = 10000) {
  const called_at user(x);
  const int whole = x.from.in->dim(head, "rotary", x.where);
  if (whole < 0) return {x.from.in, no_node};
  const dim_ref half{detail::halves_of_dims[static_cast<std::size_t>(whole)].text()}, pair{"rotary pair", 2};
  const value halves = split(x, head, pair, half);
  if (!halves.ok() || !at.ok()) return {x.from.in, no_node};
  recorder& in = *x.from.in;
  const element type = in.at(halves).type.element, wide = accumulator_of(type);
  const value rate = pow(base, cast(iota(x, half), wide) / -cast(count(halves, half), wide));
  tensor_type angles = in.at(at).type;
  angles.append(static_cast<dim_id>(in.made().find_dim(half.name)));
  const value angle = in.broadcast(cast(at, wide), angles, x.where) * rate;
  const value sign = cast(iota(x, pair), type) * 2.0 - 1.0;
  const value turned = halves * cast(cos(angle), type) + roll(halves, pair, 1) * sign * cast(sin(angle), type);
  return merge(turned, pair, half, head);
}

} // namespace cleave::nn
