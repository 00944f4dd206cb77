// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes another number of them, or other types" arguments_do_not_fit branches_without_operand.cpp:@here
// fix: Give the branches their operand, `cond(sum(x) > 0, yes, no, x)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function chosen([](auto x) {
  return cleave::cond(sum(x) > 0, [](auto v) { return v; }, [](auto v) { return v * 2; }); // here
});
constexpr auto plan = cleave::plan<X(X)>(chosen);
static_assert(plan.collectives() == 0);

int main() {}
