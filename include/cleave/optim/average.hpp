// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/optim/leaves.hpp>

namespace cleave { inline namespace v0 { namespace optim {

/// The exponential moving average of weights (EMA; Polyak and Juditsky 1992): decay * average + (1 - decay) * weights,
/// leaf by leaf. The average starts as a copy of the weights. Keep it in float if the weights have 16 bits: its leaves
/// have their own element types, and are computed in float and rounded once. Layouts are those of the average. No
/// communication, if these are the layouts of the weights.
template <class Average, class Weights, class Decay>
constexpr Average moving_average(const Average& average, const Weights& weights, const Decay& decay,
                                 source where = source::here()) {
  const called_at user(operand(values_of(average).front(), where.file, where.line), "moving_average");
  const auto share = detail::widened_number(decay);
  const auto next = [&](const value& a, const value& w) {
    return in_type(share * widened(a) + (1 - share) * in_type(w, accumulator_of(element_in(a))), element_in(a));
  };
  return tree_map(next, average, weights);
}

/// Inside a function: the mean of a loss over parts of a batch, and its gradient, one part at a time (gradient
/// accumulation): `accumulated(loss, part, weights, batch)`. The leaves of `batch` have the dim `part`, which
/// `split` makes of the batch dim; `loss(weights, batch)` is for one part, and returns one tensor. The memory is that
/// of one part. Gradients are added up in the types of the weights, 16-bit ones in float. Communication: that of one
/// part for each part; gradients that are partial stay so until the last one.
template <class F, class Weights, class Batch>
constexpr std::tuple<value, Weights> accumulated(const function<F>& loss, dim_ref part, const Weights& weights,
                                                 const Batch& batch, source where = source::here()) {
  const value first = values_of(weights).front();
  const called_at user(operand(first, where.file, where.line), "accumulated");
  const auto sums_of = [](const Weights& tree) {
    return tree_map([](const value& x) { return in_type(x, accumulator_of(element_in(x))); }, tree);
  };
  const Weights zeros = tree_map([](const value& w) { return zeros_like(w); }, sums_of(weights));
  const value none = first.in->constant(0, accumulator_of(element_in(first)), where);
  const auto [total, sums] = scan(
      part, std::tuple(none, zeros), batch,
      [&](const std::tuple<value, Weights>& before, const Batch& one) {
        const auto [value_here, slope] = value_and_grad(loss)(weights, one);
        const auto added = [](const value& a, const value& b) { return a + in_type(b, element_in(a)); };
        return std::tuple(added(std::get<0>(before), value_here), tree_map(added, std::get<1>(before), slope));
      },
      direction::forward, where.file, where.line);
  const value parts = count(values_of(batch).front(), part);
  return {total / detail::as_number(parts),
          tree_map(
              [&](const value& sum, const value& w) {
                return in_type(sum / detail::as_number(in_type(parts, element_in(sum))), element_in(w));
              },
              sums, weights)};
}

}}} // namespace cleave::v0::optim
