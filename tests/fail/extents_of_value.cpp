// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this member belongs to tensors" member_of_tensor extents_of_value.cpp:@here op=extent
// fix: The extent of a dim is `count(x, batch)`, which is known at run time.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * x.extent(0); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
