// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not broadcast" dims_do_not_broadcast line<@here> op=logical_and "repair=broadcast(a, batch, embed) & b"
// repair: above & left, where a is above, b is left
// fix: Give one of the masks all dims: `broadcast(above, batch, embed) & left`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto rows, auto columns) {
  const auto above = iota(x, batch) < rows, left = iota(x, embed) < columns;
  return select(above & left, x, 0); // here
});
constexpr auto plan = cleave::plan<X(X, int, int)>(f);
static_assert(plan.collectives() == 0);

int main() {}
