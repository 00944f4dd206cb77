// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the function returns nothing" result_missing body_returns_nothing.cpp:@here
// fix: Return the next carry.
// lines: 53 what is not returned is a warning as well
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) {
  return cleave::scan(hidden, x, w, [](auto h, auto) { h * 2.0f; }); // here
});
constexpr auto plan = cleave::plan<X(X, W)>(f);

int main() {}
