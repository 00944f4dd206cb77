// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this cannot be an operand here" not_an_operand tuple_operand.cpp:@here
// fix: Take the tuple apart: `auto [a, b] = pair;`.
#include "names.hpp"

#include <tuple>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x - std::tuple(x, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
