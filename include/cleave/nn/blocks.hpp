// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/pipeline.hpp>

namespace cleave { inline namespace v0 { namespace nn {

/// `f(x, weights)` for every layer, in order, with the schedule of a model layout: layer after layer, or in the stages
/// of a pipeline. Weights are stacked along dim `layer`. One layer is planned and compiled, whatever their number.
/// Communication: that of a layer, times the layers; in a pipeline also one exchange for each tick, and one for the
/// results.
template <class Layout, class X, class W, class F>
constexpr value blocks(const Layout& layout, dim_ref layer, const X& x, const W& weights, const F& f,
                       const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  using schedule = decltype(layout.schedule);
  const auto layers = [&](const value& h, const auto& w) {
    if constexpr (schedule::recompute) return scan(layer, h, w, remat(function(f)), direction::forward, file, line);
    else return scan(layer, h, w, f, direction::forward, file, line);
  };
  if constexpr (requires { schedule::stage; }) {
    const auto pin = [&](const value& h) { return constrain(h, layout.activations); };
    return pipeline({x, file, line}, weights,
                    {schedule::stage, schedule::microbatch, schedule::rounds, schedule::round}, layers, pin);
  } else {
    return layers(x, weights);
  }
}

}}} // namespace cleave::v0::nn
