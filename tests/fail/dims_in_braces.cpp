// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces" dims_in_braces op=sum dims_in_braces.cpp:@here
// fix: Write `sum(x, batch, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return sum(x, {batch, embed}); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
