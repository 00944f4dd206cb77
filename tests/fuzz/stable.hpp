// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/simulate/evaluate.hpp>

#include <cmath>
#include <random>

/// Whether what a program gives follows from its arguments to any accuracy.
namespace fuzz {

using namespace cleave;

/// The graph with every result of arithmetic off by a few roundings: what differs from the plain evaluator here does
/// not follow from the arguments to any accuracy, as the floor of a softmax's sum.
inline std::vector<host_array> evaluate_roughly(const graph& g, const sizes& at, std::span<const host_array> arguments,
                                                unsigned seed) {
  std::mt19937 random(seed);
  return evaluate(g, at, arguments, [&](const node& n, host_array& made) {
    const op_class what = class_of(n.code);
    const bool rounds = n.code == op::input || what == op_class::contraction || what == op_class::reduction ||
                        what == op_class::cumulative || what == op_class::sort || what == op_class::scatter ||
                        n.code == op::fold_windows ||
                        (what == op_class::elementwise && n.code != op::select && n.code != op::cast &&
                         n.code != op::broadcast && n.code != op::neg);
    if (!rounds || !is_floating(n.type.element)) return;
    std::uniform_real_distribution<double> off(-1e-13, 1e-13);
    // What is exactly 0 in one order of summation need not be in another: its root may be no number.
    // What differs by a rounding may be equal in another order: with seed 0 it becomes so. What cancels may be above
    // or below 0 in another order, which a condition on it decides by: with seeds 1 and 2 all is off to one side.
    for (double& x : made.data)
      if (seed == 0) x = std::ldexp(std::nearbyint(std::ldexp(x, 40)), -40);
      else x += (seed == 1 ? 1e-13 : seed == 2 ? -1e-13 : off(random)) * (std::fabs(x) + 0.01);
  });
}

inline double tolerance_of(element e) { return is_floating(e) ? 1e-9 : 0; }

inline bool stable(const graph& g, const sizes& at, std::span<const host_array> in,
                   const std::vector<host_array>& want) {
  for (unsigned k = 0; k < 6; ++k) {
    const auto rough = evaluate_roughly(g, at, in, k);
    for (std::size_t r = 0; r < want.size(); ++r)
      if (first_difference(want[r].data, rough[r].data, tolerance_of(g.output_types[r].element)) >= 0) return false;
  }
  return true;
}

} // namespace fuzz
