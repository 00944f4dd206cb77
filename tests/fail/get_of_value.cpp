// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this is one value and no tuple" value_unpacked get_of_value.cpp:@here
// fix: Return `top` itself. `top_k`, `moments` and functions of several results return types for `std::get` and `auto [a, b]`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto top = max(x, embed) + x;
  return std::get<0>(top); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
