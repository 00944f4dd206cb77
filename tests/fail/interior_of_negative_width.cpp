// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "paddings and widths at least 0" step_too_small line<@here> op=interior
// fix: Give the width of the border, at least 0.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::interior(2 * x, x, -1, batch); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
