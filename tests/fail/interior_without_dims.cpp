// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments interior_without_dims.cpp:@here op=interior
// fix: Name the dims that have a border: `interior(2 * x, x, 1, batch)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::interior(2 * x, x, 1); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
