// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/partition.hpp>
#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace differences {

/// Of a graph of one input and two results, a number and its gradient: planned and simulated they are as evaluated, and
/// the gradient is what differences of the number give.
inline void expect_gradient(const cleave::graph& g, const cleave::sizes& at, const cleave::host_array& a) {
  const auto want = cleave::evaluate(g, at, std::array{a});
  const cleave::simulated got = cleave::simulate(cleave::partition(g, at), at, std::array{a});
  ASSERT_EQ(got.problem, "");
  for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(cleave::first_difference(want[r].data, got.results[r].data, 1e-12), -1);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    cleave::host_array up = a, down = a;
    up.data[i] += 1e-6;
    down.data[i] -= 1e-6;
    const double slope = (cleave::evaluate(g, at, std::array{up})[0].data[0] -
                          cleave::evaluate(g, at, std::array{down})[0].data[0]) /
                         2e-6;
    EXPECT_NEAR(want[1].data[i], slope, 1e-6 * (1 + std::fabs(slope)));
  }
}

} // namespace differences
