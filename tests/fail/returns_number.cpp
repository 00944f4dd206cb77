// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor, a number, or an aggregate" not_an_argument returns_number.cpp:@here
// fix: Return a value: `zeros_like(x) + 1`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto) { return 1.0; });
constexpr auto plan = cleave::plan<X(X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
