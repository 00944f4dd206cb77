// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an argument that the function does not have" no_such_argument no_such_argument.cpp:@here expected<1> got<1>
// fix: Arguments count from 0. `grad(loss)` and `grad<0>(loss)` are gradients with respect to the first argument,
// fix: `grad<1>(loss)` with respect to the second one, which is missing here.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

constexpr cleave::function loss([](auto x) { return sum(x * x); });
constexpr auto plan = cleave::plan<X(X)>(cleave::grad<1>(loss)); // here

int main() {}
