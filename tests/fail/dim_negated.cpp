// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a dim or an axis is a name and has no number" dim_as_number dim_negated.cpp:@here
// fix: The indices of a dim are `iota<float>(x, embed)`, and its extent is `count(x, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * (-embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
