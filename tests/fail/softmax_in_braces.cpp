// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces" dims_in_braces op=softmax softmax_in_braces.cpp:@here
// fix: Write the dim alone: `softmax(x, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return softmax(x, {embed}); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
