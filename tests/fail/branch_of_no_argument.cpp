// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes another number of them, or other types" arguments_do_not_fit branch_of_no_argument.cpp:@here
// fix: Branches take the arguments behind them: `cond(p, [](auto x) { ... }, [](auto x) { ... }, x)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto s) {
  return cleave::cond(s > 0.0f, [&] { return x; }, [&] { return 2.0f * x; }, x); // here
});
constexpr auto plan = cleave::plan<X(X, cleave::abstract<float, mesh()>)>(f);

int main() {}
