// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "functions of namespace std take numbers" standard_function op=max standard_maximum_of_list.cpp:@here
// fix: Write `maximum(maximum(x, y), z)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return std::max({x, x * 2.0, -x}); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
