// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces" dims_in_braces op=pad pad_in_braces.cpp:@here
// fix: Write the numbers as arguments, with the dim of the result: `pad(x, batch, padded, 1, 1)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return pad(x, batch, {1, 1}); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
