// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes another number of them, or other types" arguments_do_not_fit body_of_one_argument.cpp:@here
// fix: The body of a scan takes the carry and the slice: `[](auto h, auto w) { ... }`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) {
  return cleave::scan(hidden, x, w, [](auto h) { return 2.0f * h; }); // here
});
constexpr auto plan = cleave::plan<X(X, W)>(f);

int main() {}
