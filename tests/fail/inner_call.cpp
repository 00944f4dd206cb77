// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "it takes another number of them, or other types" arguments_do_not_fit inner_call.cpp:@here
// fix: A function that another one calls takes its own number of arguments too.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function inner([](auto x, auto y) { return x + y; });
constexpr cleave::function f([](auto x) {
  return 2 * inner(x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
