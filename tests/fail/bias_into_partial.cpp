// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=add axis=model
// repair: held, where a is held
// fix: Each device would add the whole bias to its summand. Reduce the product first: `dot(h, down, hidden) + bias`,
// fix: without the pin. The sum is still partial for as long as its consumers allow.
#include "names.hpp"

using namespace fail_test;

using Down = cleave::abstract<float, mesh(hidden / model, embed)>;
using Bias = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto h, auto down, auto bias) {
  const auto held = reshard(dot(h, down, hidden), mesh(batch / data, embed, cleave::unreduced(model)));
  return held + bias; // here
});
constexpr auto plan = cleave::plan<X(H, Down, Bias)>(f);
static_assert(plan.collectives() == 1);

int main() {}
