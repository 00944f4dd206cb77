// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments op=repeat_times iterations_last.cpp:@here
// fix: The number of iterations comes first, `repeat_times(3, x, f)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function cubed([](auto x) {
  return cleave::repeat_times(x, 3, [](auto v) { return v * v; }); // here
});
constexpr auto plan = cleave::plan<X(X)>(cubed);
static_assert(plan.collectives() == 0);

int main() {}
