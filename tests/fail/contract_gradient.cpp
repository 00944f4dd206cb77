// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a collective that the contract forbids" contract_broken line<@here> "op=gradient of dot" collective=all_reduce
// expect: "repair=cleave::abstract<float, mesh(embed / data / model)>"
// repair: cleave::abstract<float, mesh(embed)>
// fix: The gradient of a replicated value is a sum over all devices. Allow its all-reduce, or ask for a gradient that
// fix: is sharded over the same axes, `mesh(embed / data / model)`, which needs a reduce-scatter.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

using Slope = cleave::abstract<float, mesh(embed)>;
using Shared = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function loss([](auto w, auto x) {
  const auto score = dot(x, w, embed); // here
  return sum(tanh(score), batch);
});
constexpr cleave::without<cleave::kind::all_reduce> contract;
constexpr auto plan = cleave::plan<Slope(Shared, X)>(cleave::grad(loss), contract);
static_assert(plan.count(cleave::kind::all_reduce) == 0);

int main() {}
