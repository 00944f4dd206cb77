// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces, arrays or tuples" dims_in_braces op=concat concat_of_tuple.cpp:@here
// fix: Write `concat(both, piece(x, embed), piece(y, embed))`. The same holds for a `std::array`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) {
  return concat(std::tuple(x, y), embed); // here
});
constexpr auto plan = cleave::plan<X(X, X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
