// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a branch of cond returns a number" number_from_branch branch_returns_number.cpp:@here
// fix: Return a value: `zeros_like(x)`.
// lines-clang: 28 clang adds three lines on how the list of faults is expanded
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto s) {
  return cleave::cond(s > 0.0f, [](auto y) { return y; }, [](auto) { return 0.0f; }, x); // here
});
constexpr auto plan = cleave::plan<X(X, cleave::abstract<float, mesh()>)>(f);

int main() {}
