// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=mul axis=data
// repair: slope, where a is slope
// fix: Give the gradient its complete sum first, as the type of its tensor or by `reshard(slope, mesh(embed, hidden))`.
#include "names.hpp"

#include <cleave/optim/clip.hpp>

using namespace fail_test;

using Slope = cleave::abstract<float, mesh(embed, hidden, cleave::unreduced(data))>;
using Number = cleave::abstract<float, mesh()>;
constexpr cleave::function f([](auto slope) {
  return cleave::optim::global_norm(std::array{slope}); // here
});
constexpr auto plan = cleave::plan<Number(Slope)>(f);
static_assert(plan.collectives() == 1);

int main() {}
