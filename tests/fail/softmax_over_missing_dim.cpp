// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the tensor does not have this dim" dim_missing line<@here> op=softmax dim=hidden
// fix: Name a dim that the operand has: `softmax(x, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return softmax(x, hidden); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
