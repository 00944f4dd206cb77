// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces, arrays or tuples" dims_in_braces op=sum sum_of_array.cpp:@here
// fix: Add the values: `x + y`. `sum` reduces one value over dims.
#include "names.hpp"

#include <array>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) {
  return sum(std::array{x, y}) + x; // here
});
constexpr auto plan = cleave::plan<X(X, X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
