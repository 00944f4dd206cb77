// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "functions of namespace std take numbers" standard_function standard_maximum.cpp:@here op=max
// fix: Write `maximum(x, 2 * x)`.
#include "names.hpp"

#include <algorithm>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return std::max(x, 2.0f * x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
