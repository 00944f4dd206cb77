// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not broadcast" dims_do_not_broadcast line<@here> op=mul "repair=dot(a, b)"
// expect: "repair=broadcast(a, batch, embed) * b"
// repair: rows * columns, where a is rows, b is columns
// fix: An outer product is a `dot` without dims: `dot(rows, columns)`.
#include "names.hpp"

using namespace fail_test;

using Rows = cleave::abstract<float, mesh(batch / data)>;
using Columns = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto rows, auto columns) {
  return rows * columns; // here
});
constexpr auto plan = cleave::plan<X(Rows, Columns)>(f);
static_assert(plan.collectives() == 0);

int main() {}
