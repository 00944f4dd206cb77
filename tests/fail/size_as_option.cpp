// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a plan takes options after the function" not_an_option size_as_option.cpp:@here
// fix: Write a hint, `plan<X(X)>(f, cleave::expect<batch, 64>{})`, or give sizes where the plan is asked: `plan.bytes({batch = 64})`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X)>(f, {batch = 64}); // here

int main() {}
