// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have no such operator" no_operator print_value.cpp:@here
// fix: A value has no elements while it is recorded. Return it, and print the tensor to which it is assigned.
#include "names.hpp"

#include <iostream>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  std::cout << x; // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
