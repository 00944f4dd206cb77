// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "constant expression" not_constexpr.cpp:@here
// of: the compiler
// errors-gcc: 2 g++ says that the lambda is not constexpr, and then why
// lines-gcc: 32 g++ and clang add the calls between the plan and the line
// lines-clang: 45 the same
#include "names.hpp"

using namespace fail_test;

inline float rate() { return 0.5f; }
constexpr cleave::function f([](auto x) {
  return rate() * x; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
