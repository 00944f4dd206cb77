// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not broadcast" dims_do_not_broadcast line<@here> op=select
// expect: "repair=select(broadcast(a, batch, embed, hidden), b, c)"
// repair: select(chosen, columns, others), where a is chosen, b is columns, c is others
// fix: Give one of the operands all dims: `select(broadcast(chosen, batch, embed, hidden), columns, others)`.
#include "names.hpp"

using namespace fail_test;

using Rows = cleave::abstract<bool, mesh(batch / data)>;
using Columns = cleave::abstract<float, mesh(embed)>;
using Others = cleave::abstract<float, mesh(hidden / model)>;
using Y = cleave::abstract<float, mesh(batch / data, embed, hidden / model)>;
constexpr cleave::function f([](auto chosen, auto columns, auto others) {
  return select(chosen, columns, others); // here
});
constexpr auto plan = cleave::plan<Y(Rows, Columns, Others)>(f);
static_assert(plan.collectives() == 0);

int main() {}
