// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim needs a fixed extent" window_open line<@here> op=windows dim=hidden
// fix: Fix the extent in the dim: `dim<"kernel", 3>`. The plan needs it, because it decides the messages between devices.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return sum(windows(x, cleave::window{batch, batch, hidden, 1, 1, 1, 1}), hidden); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
