// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes a function of one value from each aggregate" number_in_tree tree_map_of_two.cpp:@here
// fix: Write a function with one parameter for each aggregate: `tree_map([](auto w, auto g) { return w - g; }, w, g)`.
#include "names.hpp"

#include <cleave/expr/tree.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto h) {
  const std::tuple weights(x, h);
  return std::get<0>(cleave::tree_map([](auto a, auto b) { return a * b; }, weights)); // here
});
constexpr auto plan = cleave::plan<X(X, H)>(f);
static_assert(plan.collectives() == 0);

int main() {}
