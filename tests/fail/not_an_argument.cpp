// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor, a number, or an aggregate" not_an_argument "const char" not_an_argument.cpp:@here
// fix: Pass objects that are neither tensors nor numbers in another way: choose between functions before the call, or
// fix: make the object a template parameter of the lambda.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto) { return x + 1; });
constexpr auto plan = cleave::plan<X(X, const char*)>(f); // here

int main() {}
