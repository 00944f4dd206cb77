// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a dim or an axis is a name and has no number" dim_as_number dims_compared.cpp:@here
// fix: Compare their types: `std::is_same_v<decltype(batch), decltype(embed)>`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  if constexpr (batch == embed) return x; // here
  else return x + 1.0f;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
