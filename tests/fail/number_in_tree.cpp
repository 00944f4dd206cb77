// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a number for all leaves belongs into the function" number_in_tree number_in_tree.cpp:@here
// fix: Write the number in the function: `tree_map([](auto x) { return 0.5f * x; }, g)`.
#include "names.hpp"

#include <cleave/expr/tree.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto h) {
  const std::tuple slopes(x, h);
  return std::get<0>(cleave::tree_map([](auto a, auto b) { return a * b; }, slopes, 0.5f)); // here
});
constexpr auto plan = cleave::plan<X(X, H)>(f);
static_assert(plan.collectives() == 0);

int main() {}
