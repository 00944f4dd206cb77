// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "and then the aggregates" number_in_tree tree_before_function.cpp:@here
// fix: The function comes first: `tree_map([](auto a) { return 2.0f * a; }, weights)`.
#include "names.hpp"

#include <cleave/expr/tree.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto h) {
  const std::tuple weights(x, h);
  return std::get<0>(cleave::tree_map(weights, [](auto a) { return 2.0f * a; })); // here
});
constexpr auto plan = cleave::plan<X(X, H)>(f);
static_assert(plan.collectives() == 0);

int main() {}
