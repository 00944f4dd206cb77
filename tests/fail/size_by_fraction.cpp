// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "is a whole number with a sign" not_a_whole_number size_by_fraction.cpp:@here dim=batch
// fix: Write a whole number: `{batch = 1024}`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.bytes({batch = 1024.0}) == 0); // here

int main() {}
