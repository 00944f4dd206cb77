// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=div
// expect: axis=data "repair=reshard(b, mesh())"
// repair: tokens, where b is tokens
// fix: Each device would divide by its own count. Do not pin the count, or reduce it: `loss / reshard(tokens, mesh())`.
#include "names.hpp"

using namespace fail_test;

using Number = cleave::abstract<float, mesh()>;
using Count = cleave::abstract<float, mesh(cleave::unreduced(data))>;
constexpr cleave::function f([](auto loss, auto tokens) {
  return loss / tokens; // here
});
constexpr auto plan = cleave::plan<Number(Number, Count)>(f);
static_assert(plan.collectives() == 1);

int main() {}
