// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "it takes another number of them, or other types" arguments_do_not_fit too_many_arguments.cpp:@here
// fix: Leave out the argument that the function does not take.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X, X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
