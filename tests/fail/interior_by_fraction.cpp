// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "is a whole number with a sign" not_a_whole_number interior_by_fraction.cpp:@here
// fix: Write a whole number: `interior(2 * x, x, 1, batch)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::interior(2 * x, x, 1.5, batch); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
