// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no number" dim_as_number dim_as_bound.cpp:@here
// fix: Functions work on whole tensors. For a number of iterations use `repeat_times`, and for the extent `count(x, batch)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  for (int i = 0; i < batch; ++i) x = x + 1; // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
