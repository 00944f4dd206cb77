// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no elements yet" value_indexed subscript_value.cpp:@here
// fix: One index along a dim is `gather(x, batch, 0)`, a part `slice(x, batch, first, last)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x[0]; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
