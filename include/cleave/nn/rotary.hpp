// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/movement.hpp>
#include <cleave/expr/values.hpp>

namespace cleave { inline namespace v0 { namespace nn {

/// Rotary position embedding (Su et al. 2021). Pairs of elements along `head`, element i and the one half the extent
/// later, are rotated by the angle `at` * base^(-2 i / extent); halves are as in GPT-NeoX. `at` are integers with dims
/// of x, such as `iota(x, position)`. The extent of `head` is even. No communication unless `head` is sharded.
constexpr value rotary(operand x, operand at, dim_ref head, double base = 10000) {
  const called_at user(x, "rotary");
  const dim_ref half = derived_dim<"half ">(x, "rotary", head), pair{"rotary pair", 2};
  if (half.name.empty()) return {x.from.in, no_node};
  const value halves = split(x, head, pair, half);
  if (!halves.ok() || !at.from.ok()) return {x.from.in, no_node};
  recorder& in = *x.from.in;
  const element type = in.at(halves).type.element, wide = accumulator_of(type);
  const value rate = pow(base, cast(iota(x, half), wide) / -cast(count(halves, half), wide));
  tensor_type angles = in.at(at.from).type;
  angles.append(in.made().find_dim(half.name));
  const value angle = in.broadcast(cast(at, wide), angles, x.where) * rate;
  const value sign = cast(iota(x, pair), wide) * 2.0 - 1.0;
  const value turned = widened(halves) * cos(angle) + widened(roll(halves, pair, 1)) * sign * sin(angle);
  return merge(in_type(turned, type), pair, half, head);
}
CLEAVE_LIFT(rotary)

}}} // namespace cleave::v0::nn
