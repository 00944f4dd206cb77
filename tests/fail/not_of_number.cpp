// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "take bools and know no bits" logic_of_numbers line<@here> op=logical_not
// fix: Compare: `x == 0`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return select(!(2 * x), x, 0.0f * x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
