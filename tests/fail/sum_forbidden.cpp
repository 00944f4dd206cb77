// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a collective that the contract forbids" contract_broken line<@here> collective=all_reduce axis=model
// expect: "repair=only_over<data, model>{}"
// repair: only_over<data>{}
// fix: The gradient of a replicated weight is a sum over all axes that shard the batch. Leave the contract out, or name
// fix: all of these axes: `cleave::only_over<data, model>{}`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

using Tokens = cleave::abstract<float, mesh(batch / data / model, embed)>;
using Scale = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function loss([](auto scale, auto x) {
  return sum(sin(scale * x)); // here
});
constexpr auto plan = cleave::plan<Scale(Scale, Tokens)>(cleave::grad(loss), cleave::only_over<data>{});
static_assert(plan.collectives() == 0);

int main() {}
