// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "it takes another number of them, or other types" arguments_do_not_fit typed_parameter.cpp:@here
// fix: Parameters are written `auto`: in the function an argument is a value, not a number.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, float rate) { return x * rate; });
constexpr auto plan = cleave::plan<X(X, float)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
