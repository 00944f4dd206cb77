// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a loop or cond predicate must be a rank-0 bool" not_a_predicate line<@here> op=cond
// fix: Reduce the predicate to one value: `any(x > 0)`, `all(x > 0)`, `sum(x) > 0`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::cond(x > 0.0f, [](auto v) { return 2.0f * v; }, [](auto v) { return v; }, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
