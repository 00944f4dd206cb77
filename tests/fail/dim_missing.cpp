// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the operand does not have this dim" dim_missing line<@here> reduce hidden
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x + sum(x, hidden); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
