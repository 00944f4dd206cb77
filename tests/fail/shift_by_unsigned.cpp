// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "is a whole number with a sign" not_a_whole_number shift_by_unsigned.cpp:@here
// fix: Use a type with a sign: `const int h = 1`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  const unsigned h = 1;
  return cleave::shift(x, batch, -h); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
