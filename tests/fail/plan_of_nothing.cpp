// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "planned for a signature" not_a_signature plan_of_nothing.cpp:@here
// fix: Write the type of the result: `plan<X(X)>(f)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<void(X)>(f); // here

int main() {}
