// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments op=constrain constrain_to_type.cpp:@here
// fix: Write the layout: `constrain(x, mesh(batch / data))`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return constrain(x, X{}); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
