// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces" dims_in_braces op=concat concat_in_braces.cpp:@here
// fix: Write `concat(both, piece(x, embed), piece(y, embed))`: the first dim is the one of the result.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) {
  return concat({x, y}, embed); // here
});
constexpr auto plan = cleave::plan<X(X, X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
