// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces, arrays or tuples" dims_in_braces op=stack stack_of_list.cpp:@here
// fix: Each operand is an argument: `stack(hidden, x, x)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return stack(hidden, {x, x}); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
