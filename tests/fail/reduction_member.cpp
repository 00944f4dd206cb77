// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "operations are functions, not members" operation_as_member op=max reduction_member.cpp:@here
// fix: Write `x - max(x, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x - x.max(embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
