// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "which returns a value" number_in_tree tree_map_of_pairs.cpp:@here
// fix: Return one value. Two results of each leaf are two calls of `tree_map`.
#include "names.hpp"

#include <cleave/expr/tree.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto h) {
  const std::tuple weights(x, h);
  return std::get<0>(tree_map([](auto a) { return std::pair(a, a); }, weights)); // here
});
constexpr auto plan = cleave::plan<X(X, H)>(f);
static_assert(plan.collectives() == 0);

int main() {}
