// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/optim/leaves.hpp>

#include <initializer_list>
#include <string_view>

namespace cleave { inline namespace v0 { namespace optim {

/// The state of Adam: averages of the gradients and of their squares, and for each the sum of the averaging weights so
/// far, a rank-0 tensor. All start as zeros. `Weights` may have other layouts than the parameters (ZeRO).
template <class Weights, class Number>
struct adam_state {
  Weights mean;
  Weights square;
  Number mean_weight;
  Number square_weight;
};

/// Options of Adam.
struct adam_options {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Decoupled weight decay (AdamW, Loshchilov and Hutter 2019); 0 is Adam.
  double weight_decay = 0;
};
/// The same options as run-time arguments of a function: `adam_numbers<float>`.
template <class Number>
struct adam_numbers {
  Number beta1, beta2, epsilon, weight_decay;
};

/// One step of Adam (Kingma and Ba 2015), leaf by leaf: the new weights and state. The bias corrections 1 - decay^t are
/// running averages of ones, which loses no digits when t is small. 16-bit leaves are computed in float, and rounded
/// once: the weights and the state.
template <class Weights, class State, class Rate, class Options = adam_options>
constexpr std::tuple<Weights, State> adam(const Weights& weights, const State& state, const Weights& gradients,
                                          const Rate& rate, const Options& o = {}, source where = source::here()) {
  const called_at user(operand(state.mean_weight, where.file, where.line), "adam");
  const auto averaged = [](const auto& decay, const value& average, const auto& next) {
    return decay * widened(average) + (1 - decay) * next;
  };
  const auto beta1 = detail::widened_number(o.beta1), beta2 = detail::widened_number(o.beta2);
  State s = state;
  s.mean = tree_map([&](const value& m, const value& g) { return averaged(beta1, m, widened(g)); }, state.mean,
                    gradients);
  s.square = tree_map([&](const value& v, const value& g) { return averaged(beta2, v, widened(g) * widened(g)); },
                      state.square, gradients);
  s.mean_weight = averaged(beta1, state.mean_weight, 1);
  s.square_weight = averaged(beta2, state.square_weight, 1);
  const value mean_weight = detail::as_number(s.mean_weight), square_weight = detail::as_number(s.square_weight);
  const auto by = detail::widened_number(rate);
  const auto epsilon = detail::widened_number(o.epsilon);
  const auto decay = detail::widened_number(o.weight_decay);
  const auto updated = [&](const value& w, const value& m, const value& v) {
    const value direction = (m / mean_weight) / (root_of_squares(v / square_weight) + epsilon), wide = widened(w);
    if constexpr (std::same_as<Options, adam_options>)
      if (o.weight_decay == 0) return in_type(wide - by * direction, element_in(w));
    return in_type(wide - by * (direction + decay * wide), element_in(w));
  };
  const Weights moved = tree_map(updated, weights, s.mean, s.square);
  s.mean = detail::in_types_of(state.mean, s.mean);
  s.square = detail::in_types_of(state.square, s.square);
  s.mean_weight = in_type(s.mean_weight, element_in(state.mean_weight));
  s.square_weight = in_type(s.square_weight, element_in(state.square_weight));
  return {moved, s};
}

/// One step of LAMB (You et al. 2020), leaf by leaf: the step of Adam with weight decay, scaled by the norm of the
/// leaf's weights over the norm of its step, or by 1 if either is 0. State and options are those of Adam. 16-bit leaves
/// are computed in float and rounded once. Communication: as for Adam, and two sums for each leaf that is sharded,
/// which share messages where they are over the same axes.
template <class Weights, class State, class Rate>
constexpr std::tuple<Weights, State> lamb(const Weights& weights, const State& state, const Weights& gradients,
                                          const Rate& rate, const adam_options& o = {}, source where = source::here()) {
  const called_at user(operand(state.mean_weight, where.file, where.line), "lamb");
  const auto wide = [](const value& w) { return widened(w); };
  // The step of Adam alone, negative: its weights if it starts from zeros with a rate of 1.
  const Weights widened_weights = tree_map(wide, weights),
                zeros = tree_map([](const value& w) { return zeros_like(w); }, widened_weights);
  adam_options undecayed = o;
  undecayed.weight_decay = 0;
  const auto [moved, next] = adam(zeros, state, gradients, 1, undecayed, where);
  const auto by = detail::widened_number(rate);
  const auto updated = [&](const value& w, const value& wide, const value& minus) {
    const value step = o.weight_decay * wide - minus, of_weights = root_of_squares(sum(wide * wide)),
                of_step = root_of_squares(sum(step * step));
    const value trusted = (of_weights > 0) & (of_step > 0);
    const value trust = select(trusted, of_weights / select(trusted, of_step, 1), 1);
    return in_type(wide - by * detail::as_number(trust) * step, element_in(w));
  };
  return {tree_map(updated, weights, widened_weights, moved), next};
}

/// Weights after decoupled decay (Loshchilov and Hutter 2019): weights - by * weights, except for leaves whose names
/// fit one of the patterns, in which `*` stands for any letters: `decayed(w, rate * 0.1, {"*.bias", "*norm*"})`. `by`
/// is a number or a rank-0 value. The step of an optimizer without decay follows: that of AdamW, Lion or SGD. 16-bit
/// leaves are computed in float and rounded once. No communication.
template <class Weights, class By>
constexpr Weights decayed(const Weights& weights, const By& by, std::initializer_list<std::string_view> except,
                          source where = source::here()) {
  const called_at user(operand(values_of(weights).front(), where.file, where.line), "decayed");
  const auto share = detail::widened_number(by);
  return tree_map_by_name(
      [&](std::string_view name, const value& w) {
        for (const std::string_view pattern : except)
          if (fits(name, pattern)) return w;
        const value wide = widened(w);
        return in_type(wide - share * wide, element_in(w));
      },
      weights);
}

}}} // namespace cleave::v0::optim
