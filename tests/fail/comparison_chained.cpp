// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "compared again" comparison_of_bools line<@here> op=less
// fix: Write `(0 < x) & (x < 1)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return select(0 < x < 1, x, 0.0f * x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
