// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor, a number, or an aggregate" not_an_argument returns_pointer.cpp:@here
// fix: Return the value itself, or a std::tuple of values.
#include "names.hpp"

#include <vector>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  const auto y = 2 * x;
  return std::vector<cleave::value>{y};
});
constexpr auto plan = cleave::plan<X(X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
