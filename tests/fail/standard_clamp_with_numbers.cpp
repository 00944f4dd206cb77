// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "functions of namespace std take numbers" standard_function op=clamp standard_clamp_with_numbers.cpp:@here
// fix: Write `minimum(maximum(x, 0.0), 1.0)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return std::clamp(x, 0.0, 1.0); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
