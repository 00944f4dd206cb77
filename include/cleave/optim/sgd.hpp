// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/optim/leaves.hpp>

namespace cleave { inline namespace v0 { namespace optim {

/// One step of gradient descent, leaf by leaf: weights - rate * gradients. `rate` is a number or a rank-0 value. 16-bit
/// leaves are computed in float and rounded once.
/// Layouts are those of the weights. Communication: only that which brings the gradients into these layouts.
template <class Weights, class Rate>
constexpr Weights sgd(const Weights& weights, const Weights& gradients, const Rate& rate,
                      source where = source::here()) {
  const called_at user(operand(values_of(weights).front(), where.file, where.line), "sgd");
  const auto by = detail::widened_number(rate);
  const auto updated = [&](const value& w, const value& g) {
    return in_type(widened(w) - by * widened(g), element_in(w));
  };
  return tree_map(updated, weights, gradients);
}

/// The same with momentum (Polyak 1964): velocity = momentum * velocity + gradients; weights - rate * velocity. Returns
/// the weights and the velocity. The velocity starts as zeros.
template <class Weights, class Rate, class Momentum>
constexpr std::tuple<Weights, Weights> sgd(const Weights& weights, const Weights& velocity, const Weights& gradients,
                                           const Rate& rate, const Momentum& momentum, source where = source::here()) {
  const called_at user(operand(values_of(weights).front(), where.file, where.line), "sgd");
  const auto share = detail::widened_number(momentum);
  const Weights faster = tree_map([&](const value& v, const value& g) { return share * widened(v) + widened(g); },
                                  velocity, gradients);
  return {sgd(weights, faster, rate), detail::in_types_of(velocity, faster)};
}

}}} // namespace cleave::v0::optim
