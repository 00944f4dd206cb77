// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have no such operator" no_operator shift_left.cpp:@here
// fix: Multiply by 4; neighbours are `shift(x, batch, 1)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x << 2; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
