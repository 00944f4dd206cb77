// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=reduce axis=model
// repair: p, where a is p
// fix: The maximum of summands is not the maximum of sums. Reduce the sums first: `max(reshard(p, mesh(embed)))`.
#include "names.hpp"

using namespace fail_test;

using P = cleave::abstract<float, mesh(embed, cleave::unreduced(model))>;
using Number = cleave::abstract<float, mesh()>;
constexpr cleave::function f([](auto p) {
  return max(p); // here
});
constexpr auto plan = cleave::plan<Number(P)>(f);
static_assert(plan.collectives() == 1);

int main() {}
