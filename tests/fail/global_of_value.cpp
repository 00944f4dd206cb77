// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this member belongs to tensors" member_of_tensor global_of_value.cpp:@here op=to_global
// fix: Assign the result to a tensor, and call `to_global()` on that one outside of the function.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * x.to_global(); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
