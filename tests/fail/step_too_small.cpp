// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "must be at least 1, paddings and widths at least 0" step_too_small line<@here> op=slice dim=embed
// fix: Negative indices count from the end. To reverse a dim use `flip`: `slice(flip(x, embed), embed, hidden, 0)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

using Y = cleave::abstract<float, mesh(batch / data, hidden)>;
constexpr cleave::function f([](auto x) {
  return slice(x, embed, hidden, 0, cleave::to_the_end, -1); // here
});
constexpr auto plan = cleave::plan<Y(X)>(f);

int main() {}
