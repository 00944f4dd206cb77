// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments op=one_hot one_hot_of_number.cpp:@here
// fix: Name the new dim: `one_hot(labels, classes)` with `dim<"classes", 10>`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return one_hot(x, 10); // here
});
constexpr auto plan = cleave::plan<X(cleave::abstract<int, mesh(batch / data)>)>(f);

int main() {}
