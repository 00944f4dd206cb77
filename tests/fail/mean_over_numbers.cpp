// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces" dims_in_braces op=mean mean_over_numbers.cpp:@here
// fix: Dims have names, and are arguments of their own: `mean(x, batch, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return mean(x, {0, 1}); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(X)>(f);

int main() {}
