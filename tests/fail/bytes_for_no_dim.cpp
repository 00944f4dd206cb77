// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: unknown_size bytes_for_no_dim.cpp:@here
// of: the compiler
// errors-gcc: 2 a condition that is no constant, and why
// alone: the second error of g++ names a header alone
// fix: Name a dim or an axis of the function, with a size that it can have.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.bytes({hidden = 1024}) == 0); // here

int main() {}
