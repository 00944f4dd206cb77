// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: captured name_not_captured.cpp:@here
// of: the compiler
// errors-clang: 4 clang says it where the body is parsed and where it is instantiated, then there is no constant
// lines-clang: 180 clang proposes four captures each time
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto t) {
  return cleave::repeat_until(
      x, [](auto u) { return 0.5f * u; }, [](auto u) { return max(abs(u)) < t; }, // here
      10);
});
constexpr auto plan = cleave::plan<X(X, float)>(f);
static_assert(plan.collectives() == 0);

int main() {}
