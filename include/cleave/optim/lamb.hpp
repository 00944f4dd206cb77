// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/optim/adam.hpp>

namespace cleave { inline namespace v0 { namespace optim {

/// One step of LAMB (You et al. 2020), leaf by leaf: the step of Adam with weight decay, scaled by the norm of the
/// leaf's weights over the norm of its step, or by 1 if either is 0. State and options are those of Adam. 16-bit leaves
/// are computed in float and rounded once. Communication: as for Adam, and two sums for each leaf that is sharded,
/// which share messages where they are over the same axes.
template <class Weights, class State, class Rate>
constexpr std::tuple<Weights, State> lamb(const Weights& weights, const State& state, const Weights& gradients,
                                          const Rate& rate, const adam_options& o = {}, source where = source::here()) {
  const called_at user(operand(state.mean_weight, where.file, where.line), "lamb");
  const auto wide = [](const value& w) { return widened(w); };
  // The step of Adam alone: what it takes from weights of zero at a rate of 1.
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

}}} // namespace cleave::v0::optim
