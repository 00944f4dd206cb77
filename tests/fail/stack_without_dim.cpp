// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments op=stack stack_without_dim.cpp:@here
// fix: Name the new dim: `stack(pair, x, y)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return stack(x, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
