// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this member belongs to tensors" member_of_tensor fill_value.cpp:@here op=fill
// fix: Write `x = zeros_like(x)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  x.fill(0.0f); // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
