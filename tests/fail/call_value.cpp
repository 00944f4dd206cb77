// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no elements yet" value_indexed call_value.cpp:@here
// fix: A neighbour is `shift(x, batch, 1)`; a part is `slice(x, batch, first, last)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x(batch, 1) - x; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
