// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "begin before its end" step_too_small line<@here> op=slice dim=batch
// fix: Write the lower bound first, and `flip` to reverse the elements.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

inline constexpr cleave::dim<"part"> part;
using Y = cleave::abstract<float, mesh(part / data, embed)>;
constexpr cleave::function f([](auto x) {
  return cleave::slice(x, batch, part, 5, 2); // here
});
constexpr auto plan = cleave::plan<Y(X)>(f);

int main() {}
