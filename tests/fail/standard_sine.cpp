// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: sin standard_sine.cpp:@here
// of: the compiler
// errors-gcc: 2 g++ calls what is wrong with one of the functions named sin an error too
// lines: 100 the compiler lists all functions named sin
#include "names.hpp"

#include <cmath>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return std::sin(x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
