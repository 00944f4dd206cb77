// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=add axis=data
// repair: total, where a is total
// fix: Each device would add the number. Reduce the sum first: `reshard(total, mesh()) + 1.0f`.
#include "names.hpp"

using namespace fail_test;

using Sum = cleave::abstract<float, mesh(cleave::unreduced(data))>;
using Number = cleave::abstract<float, mesh()>;
constexpr cleave::function f([](auto total) {
  return total + 1.0f; // here
});
constexpr auto plan = cleave::plan<Number(Sum)>(f);
static_assert(plan.collectives() == 1);

int main() {}
