// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes a function of one value from each aggregate" number_in_tree tree_map_by_name_of_one.cpp:@here
// fix: The function takes the name first: `tree_map_by_name([](auto name, auto a) { return 2.0f * a; }, weights)`.
#include "names.hpp"

#include <cleave/expr/tree.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto h) {
  const std::tuple weights(x, h);
  return std::get<0>(tree_map_by_name([](auto a) { return 2.0f * a; }, weights)); // here
});
constexpr auto plan = cleave::plan<X(X, H)>(f);
static_assert(plan.collectives() == 0);

int main() {}
