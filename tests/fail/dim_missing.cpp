// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the tensor does not have this dim" dim_missing line<@here> op=sum dim=hidden
// fix: Name a dim that the operand has: `sum(x, embed)`. Note that `dot`, `sum`, `max`, `min` and `mean` remove the
// fix: dims that they are given.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x + sum(x, hidden); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
