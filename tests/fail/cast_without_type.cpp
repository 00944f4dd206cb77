// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "its element type is a template argument" type_of_cast cast_without_type.cpp:@here
// fix: Write `cast<double>(x)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cast(x, 1.0); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
