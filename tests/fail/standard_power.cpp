// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "functions of namespace std take numbers" standard_function standard_power.cpp:@here op=pow
// fix: Write `pow(x, 2)`.
#include "names.hpp"

#include <cmath>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return std::pow(x, 2); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
