// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a plan or a gradient takes a function" not_a_function plan_of_lambda.cpp:@here
// fix: Write `constexpr cleave::function f([](auto x) { return x + 1.0f; });` and `plan<X(X)>(f)`.
#include "names.hpp"

using namespace fail_test;

constexpr auto plan = cleave::plan<X(X)>([](auto x) { return x + 1.0f; }); // here
static_assert(plan.collectives() == 0);

int main() {}
