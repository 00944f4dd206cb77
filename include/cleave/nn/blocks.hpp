// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/pipeline.hpp>

namespace cleave { inline namespace v0 { namespace nn {

namespace detail {
/// Stacked weights and the numbers of their layers.
template <class W>
struct numbered_layers {
  W weights;
  value index;
};
template <class>
inline constexpr bool is_numbered = false;
template <class W>
inline constexpr bool is_numbered<numbered_layers<W>> = true;
} // namespace detail

/// `f(x, weights)` for every layer, in order, with the schedule of a model layout: layer after layer, or in the stages
/// of a pipeline. Weights are stacked along dim `layer`. One layer is planned and compiled, whatever their number. An
/// `f(x, weights, index)` also gets the number of its layer, an int32, from which it may make a key: `fold_in(key,
/// index)`. In a pipeline the index has the dim of the stages. Communication: that of a layer, times the layers; in a
/// pipeline also one exchange for each tick, and one for the results.
template <class Layout, class X, class W, class F>
constexpr value blocks(const Layout& layout, dim_ref layer, const X& x, const W& weights, const F& f,
                       const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  using schedule = decltype(layout.schedule);
  const auto layers = [&]<class Stack>(const value& h, const Stack& w) {
    constexpr bool numbered = detail::is_numbered<Stack>;
    const auto step = [&](const value& carry, const Stack& slice) {
      if constexpr (numbered) return f(carry, slice.weights, slice.index);
      else return f(carry, slice);
    };
    if constexpr (schedule::recompute) return scan(layer, h, w, remat(function(step)), direction::forward, file, line);
    else return scan(layer, h, w, step, direction::forward, file, line);
  };
  const auto in_schedule = [&](const auto& stack) {
    if constexpr (requires { schedule::stage; }) {
      const auto pin = [&](const value& h) { return constrain(h, layout.activations); };
      return pipeline({x, file, line}, stack,
                      {schedule::stage, schedule::microbatch, schedule::rounds, schedule::round}, layers, pin);
    } else {
      return layers(x, stack);
    }
  };
  if constexpr (requires(const value& index) { f(x, weights, index); }) {
    const called_at user(operand(x, file, line), "blocks");
    value index = iota(x, layer);
    if constexpr (requires { schedule::stage; }) {
      const value own = index, stages = iota(x, schedule::stage), length = count<std::int32_t>(own, layer);
      index = broadcast(stages, schedule::stage, layer) * length + own;
      if constexpr (schedule::rounds > 1) {
        const value around = broadcast(iota(x, schedule::round), schedule::round, schedule::stage, layer);
        index = around * (count<std::int32_t>(stages, schedule::stage) * length) + index;
      }
    }
    return in_schedule(detail::numbered_layers<W>{weights, index});
  } else {
    return in_schedule(weights);
  }
}

}}} // namespace cleave::v0::nn
