// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a plan takes options after the function" not_an_option number_as_option.cpp:@here
// fix: Write a contract: `plan<X(X)>(f, cleave::at_most<100>{})`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X)>(f, 100); // here

int main() {}
