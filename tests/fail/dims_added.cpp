// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a dim or an axis is a name and has no number" dim_as_number dims_added.cpp:@here
// fix: Each dim is an argument: `sum(x, batch, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * sum(x, batch + embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
