// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces, arrays or tuples" dims_in_braces op=concat pieces_in_braces.cpp:@here
// fix: Each piece is an argument: `concat(hidden, piece(x, embed), piece(y, embed))`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) {
  return concat(hidden, {piece(x, embed), piece(y, embed)}); // here
});
constexpr auto plan = cleave::plan<H(X, X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
