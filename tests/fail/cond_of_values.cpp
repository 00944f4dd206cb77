// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a branch of cond is a function" branch_no_function cond_of_values.cpp:@here
// fix: Write `select(x > 0, x, -x)`, or `cond(s > 0, [](auto v) { return v; }, [](auto v) { return -v; }, x)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto s) {
  return cleave::cond(s > 0.0f, x, -x); // here
});
constexpr auto plan = cleave::plan<X(X, cleave::abstract<float, mesh()>)>(f);

int main() {}
