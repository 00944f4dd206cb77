// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "is a whole number with a sign" not_a_whole_number shift_by_fraction.cpp:@here
// fix: Write a whole number: `shift(x, batch, 1)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::shift(x, batch, 1.5); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
