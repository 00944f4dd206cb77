// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/optim/leaves.hpp>

#include <limits>

// Mixed precision (Micikevicius et al. 2018): weights and their updates in float, products on 16-bit copies. Gradients
// of `half` are scaled up lest small ones become 0, gradients of `bfloat16`, which has the range of float, need no
// scale.

namespace cleave { inline namespace v0 { namespace optim {

/// Inside a function: the aggregate with its floating-point leaves converted to element type T:
/// `lowered<bfloat16>(weights)`. Other leaves stay as they are. Names and layouts are kept. No communication.
template <class T, class Tree>
constexpr Tree lowered(const Tree& tree, source where = source::here()) {
  const called_at user(operand(values_of(tree).front(), where.file, where.line));
  return tree_map([](const value& x) { return is_floating(element_in(x)) ? in_type(x, element_of<T>) : x; }, tree);
}

/// The gradients converted to the types of the weights and divided by the scale of the loss, a number or a rank-0
/// value.
template <class Weights, class Scale>
constexpr Weights unscaled(const Weights& gradients, const Weights& weights, const Scale& scale,
                           source where = source::here()) {
  const called_at user(operand(values_of(gradients).front(), where.file, where.line));
  const auto restored = [&](const value& g, const value& w) {
    return in_type(g, element_in(w)) / detail::as_number(scale);
  };
  return tree_map(restored, gradients, weights);
}

namespace detail {
/// The loss times a scale, and all that F returns.
template <class F>
struct scaled_loss {
  template <class Weights, class Scale, class... Rest>
  constexpr auto operator()(const Weights& weights, const Scale& scale, const Rest&... rest) const {
    auto result = F{}(weights, rest...);
    return std::tuple(widened(loss_of(result)) * scale, result);
  }
};
} // namespace detail

/// Inside a function: the result of `loss` for a copy of the weights in element type T, and the gradient with respect
/// to the weights, in their own types: `value_and_grad(loss)(weights, rest...)` computed in T. `scale`, a number or a
/// rank-0 value, multiplies the loss and divides the gradient, which may be infinite or NaN if the scale is too large.
/// The first tensor that `loss` returns is the loss.
template <class T, class F, class Weights, class... Rest>
constexpr auto mixed_value_and_grad(const function<F>&, operand scale, const Weights& weights, const Rest&... rest) {
  const value first = values_of(weights).front();
  const value scaling = detail::as_number(
      scale.is_literal ? first.in->constant(scale.literal, element::f32, scale.where) : scale.from);
  const auto [result, slope] = value_and_grad(function(detail::scaled_loss<F>{}))(lowered<T>(weights, scale.where),
                                                                                  scaling, rest...);
  return std::tuple(std::get<1>(result), unscaled(slope, weights, scaling, scale.where));
}

/// Whether no element of any leaf is infinite or NaN: a rank-0 bool, the same on all devices. Communication: one number
/// is reduced for each set of axes that shards leaves. Fault: not_floating.
template <class Tree>
constexpr value all_finite(const Tree& tree, source where = source::here()) {
  const called_at user(operand(values_of(tree).front(), where.file, where.line));
  // Counted in floats: partial counts of all leaves stay partial until they are added up, and none wraps to 0.
  const auto not_finite = [](const value& x) {
    const element type = element_in(x);
    return select(abs(x) < std::numeric_limits<double>::infinity(), x.in->constant(0, type, {}), 1);
  };
  return detail::total_of(tree, "all_finite", where, not_finite) == 0;
}

/// Leaf by leaf, `yes` if a rank-0 predicate holds, else `no`. With `all_finite` it skips an update whose gradient is
/// not finite. All devices have the same predicate, so they agree.
template <class Tree>
constexpr Tree select_tree(const value& predicate, const Tree& yes, const Tree& no, source where = source::here()) {
  const called_at user(operand(predicate, where.file, where.line));
  return tree_map([&](const value& y, const value& n) { return select(predicate, y, n); }, yes, no);
}

/// The state of dynamic loss scaling: the scale, and the number of steps since it last changed, two rank-0 tensors.
/// `scale` starts as a power of two, such as 2^15, and `good` as 0.
template <class Number, class Count = Number>
struct loss_scale {
  Number scale;
  Count good;
};

/// Options of `next_loss_scale`.
struct loss_scale_options {
  /// After this many steps with finite gradients the scale is multiplied by `growth`. After every step without, it is
  /// multiplied by `shrink`.
  double interval = 2000;
  double growth = 2;
  double shrink = 0.5;
  double least = 1;
  double most = 16777216;
};

/// The state for the next step, given whether the gradients of this step were finite (Micikevicius et al. 2018). No
/// communication.
template <class State>
constexpr State next_loss_scale(const State& state, const value& finite, const loss_scale_options& o = {},
                                source where = source::here()) {
  const called_at user(operand(finite, where.file, where.line));
  State s = state;
  const value good = state.good + 1;
  const value grows = good >= o.interval;
  s.good = select(finite & !grows, good, 0);
  s.scale = select(finite, select(grows, minimum(state.scale * o.growth, o.most), state.scale),
                   maximum(state.scale * o.shrink, o.least));
  return s;
}

}}} // namespace cleave::v0::optim
