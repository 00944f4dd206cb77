// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "it takes another number of them, or other types" arguments_do_not_fit too_few_arguments.cpp:@here
// fix: Give the plan, and the call, as many arguments as the function has parameters.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) { return x + y; });
constexpr auto plan = cleave::plan<X(X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
