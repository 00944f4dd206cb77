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

/// Options of Lion.
struct lion_options {
  double beta1 = 0.9;
  double beta2 = 0.99;
  /// Decoupled weight decay.
  double weight_decay = 0;
};

/// One step of Lion (Chen et al. 2023), leaf by leaf: the new weights and averages. Weights move by the rate, in the
/// direction of the sign of beta1 * average + (1 - beta1) * gradient; the average then decays by beta2. It starts as
/// zeros, and is the only state: half of that of Adam. 16-bit leaves are computed in float and rounded once. Layouts
/// are those of the weights and of the averages. Communication: only that which brings the gradients into these.
template <class Weights, class Rate>
constexpr std::tuple<Weights, Weights> lion(const Weights& weights, const Weights& averages, const Weights& gradients,
                                            const Rate& rate, const lion_options& o = {},
                                            source where = source::here()) {
  const called_at user(operand(values_of(weights).front(), where.file, where.line), "lion");
  const auto by = detail::widened_number(rate);
  const auto updated = [&](const value& w, const value& m, const value& g) {
    const value wide = widened(w), direction = sign(o.beta1 * widened(m) + (1 - o.beta1) * widened(g));
    if (o.weight_decay == 0) return in_type(wide - by * direction, element_in(w));
    return in_type(wide - by * (direction + o.weight_decay * wide), element_in(w));
  };
  const auto averaged = [&](const value& m, const value& g) {
    return in_type(o.beta2 * widened(m) + (1 - o.beta2) * widened(g), element_in(m));
  };
  return {tree_map(updated, weights, averages, gradients), tree_map(averaged, averages, gradients)};
}

}}} // namespace cleave::v0::optim
