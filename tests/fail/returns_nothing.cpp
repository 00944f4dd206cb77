// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the function returns nothing" result_missing returns_nothing.cpp:@here
// fix: Return what is computed. Assigning to a parameter changes no tensor.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { x = 2 * x; });
constexpr auto plan = cleave::plan<X(X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
