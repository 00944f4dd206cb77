// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "functions of namespace std take numbers" standard_function standard_sine.cpp:@here op=sin
// fix: Write `sin(x)`. The name is found by its argument; `using std::sin;` before it does no harm.
#include "names.hpp"

#include <cmath>

using namespace fail_test;

// No mistake: the library's own function is called.
constexpr cleave::function right([](auto x) {
  using std::pow, std::sin;
  return sin(x) + pow(x, 2);
});
static_assert(cleave::plan<X(X)>(right).collectives() == 0);

constexpr cleave::function f([](auto x) {
  return std::sin(x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
