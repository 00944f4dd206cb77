// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a loop carry must keep its element type and dims" carry_changes line<@here> op=scan dim=embed
// fix: Return a carry with the dims and the element type of the initial one: `rename(next, hidden, embed)`,
// fix: `cast<float>(next)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) {
  return cleave::scan(hidden, x, w, [](auto h, auto column) { return sum(h * column, embed); }); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh(batch, embed)>(X, W)>(f);

int main() {}
