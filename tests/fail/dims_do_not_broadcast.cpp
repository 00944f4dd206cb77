// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the operands do not broadcast" dims_do_not_broadcast line<@here> op=add dim=hidden
// repair: x + h, where a is x, b is h
// fix: Give both operands the same dims first, for example with `sum(h, hidden)`, or contract with `dot`. For an outer
// fix: product write `dot(a, b)` without a dim; for another outer operation, `broadcast(a, row, col) == b`.
#include "names.hpp"

using namespace fail_test;

using Y = cleave::abstract<float, mesh(batch / data, embed, hidden)>;
constexpr cleave::function f([](auto x, auto h) {
  return x + h; // here
});
constexpr auto plan = cleave::plan<Y(X, H)>(f);

int main() {}
