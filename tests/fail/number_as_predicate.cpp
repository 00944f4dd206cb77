// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the element types do not match" element_types_differ line<@here> op=select
// fix: The first operand is a predicate: `select(x != 0, x, 1)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return select(x, x, 1.0f); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
