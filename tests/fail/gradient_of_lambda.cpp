// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a plan or a gradient takes a function" not_a_function gradient_of_lambda.cpp:@here
// fix: Wrap the lambda: `cleave::grad(cleave::function([](auto x) { return sum(x * x); }))`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

constexpr auto slope = cleave::grad<0>([](auto x) { return sum(x * x); }); // here

int main() {}
