// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/movement.hpp>
#include <cleave/expr/values.hpp>

namespace cleave { inline namespace v0 { namespace nn {

/// How `rotary` turns pairs of elements, in the ways of published models. Numbers are literals or values of rank 0.
struct rotation {
  operand base = 10000;
  /// Elements 2i and 2i + 1 are a pair (GPT-J, llama2.c), not elements i and i + extent / 2 (GPT-NeoX, Llama in
  /// safetensors).
  bool neighbours = false;
  /// By which positions are divided (Chen et al. 2023).
  operand stretch = 1;
  /// Wavelengths above `context` / `low` are multiplied by `factor`, those below `context` / `high` stay, and those
  /// between are in between (Llama 3.1).
  operand factor = 1, low = 1, high = 4, context = 8192;
};

namespace detail {
constexpr bool is_literally(const operand& x, double number) { return x.is_literal && x.literal == number; }
} // namespace detail

/// Rotary position embedding (Su et al. 2021). Pairs of elements along `head` are rotated by the angle `at` *
/// base^(-2 i / extent), the rate of which `rotation` may change. `at` are integers with dims of x, such as `iota(x,
/// position)`. The extent of `head` is even. No communication unless `head` is sharded.
constexpr value rotary(operand x, operand at, dim_ref head, const rotation& how) {
  const called_at user(x, "rotary");
  const dim_ref half = derived_dim<"half ">(x, "rotary", head), pair{"rotary pair", 2};
  if (half.name.empty()) return {x.from.in, no_node};
  const value halves = how.neighbours ? split(x, head, half, pair) : split(x, head, pair, half);
  if (!halves.ok() || !at.from.ok()) return {x.from.in, no_node};
  recorder& in = *x.from.in;
  const element type = in.at(halves).type.element, wide = accumulator_of(type);
  value rate = pow(how.base, cast(iota(x, half), wide) / -cast(count(halves, half), wide));
  if (!detail::is_literally(how.stretch, 1)) rate = rate / how.stretch;
  if (!detail::is_literally(how.factor, 1)) {
    constexpr double turn = 6.283185307179586;
    const value waves = rate * how.context / turn; // in the context
    const value between = zeros_like(rate) + how.high - how.low; // both may be literals
    const value keeps = minimum(maximum((waves - how.low) / between, 0.0), 1.0);
    rate = rate * (keeps + (1.0 - keeps) / how.factor);
  }
  tensor_type angles = in.at(at.from).type;
  angles.append(in.made().find_dim(half.name));
  const value angle = in.broadcast(cast(at, wide), angles, x.where) * rate;
  const value sign = cast(iota(x, pair), wide) * 2.0 - 1.0;
  const value turned = widened(halves) * cos(angle) + widened(roll(halves, pair, 1)) * sign * sin(angle);
  return how.neighbours ? merge(in_type(turned, type), half, pair, head)
                        : merge(in_type(turned, type), pair, half, head);
}
constexpr value rotary(operand x, operand at, dim_ref head, operand base = 10000) {
  return rotary(x, at, head, rotation{base});
}
CLEAVE_LIFT(rotary)

}}} // namespace cleave::v0::nn
