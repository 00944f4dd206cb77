// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not broadcast" dims_do_not_broadcast line<@here> op=atan2 "repair=atan2(broadcast(a, batch, embed), b)"
// repair: atan2(x, y), where a is x, b is y
// fix: Give one operand the dims that it lacks: `atan2(broadcast(x, batch, embed), y)`.
#include "names.hpp"

#include <cleave/expr/mathematics.hpp>

using namespace fail_test;

using Rows = cleave::abstract<float, mesh(batch / data)>;
using Columns = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto x, auto y) {
  return atan2(x, y); // here
});
constexpr auto plan = cleave::plan<X(Rows, Columns)>(f);

int main() {}
