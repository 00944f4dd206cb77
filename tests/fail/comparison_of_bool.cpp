// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "compared again" comparison_of_bools line<@here> op=equal
// fix: A bool needs no comparison: `select(x > 0, x, y)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return select((x > 0) == 1, x, 0.0f * x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
