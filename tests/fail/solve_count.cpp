// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the number of iterations must be a rank-0 integer" not_a_count line<@here>
// fix: Give a literal that is not negative, or an int argument of the function.
#include "names.hpp"

#include <cleave/solve/bicgstab.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::solve::bicgstab([](auto u) { return 2 * u; }, x, {.iterations = -3}).solution; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
