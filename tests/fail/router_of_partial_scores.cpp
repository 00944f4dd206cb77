// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=softmax
// expect: axis=model "repair=reshard(a, mesh(batch / data, hidden))"
// repair: scores, where a is scores
// fix: Do not pin the scores. The planner reduces them before `softmax`.
#include "names.hpp"

using namespace fail_test;

using Tokens = cleave::abstract<float, mesh(batch / data, embed / model)>;
using Router = cleave::abstract<float, mesh(embed / model, hidden)>;
using Gates = cleave::abstract<float, mesh(batch / data, hidden)>;
constexpr cleave::function f([](auto x, auto router) {
  constexpr auto where = mesh(batch / data, hidden, cleave::unreduced(model));
  const auto scores = reshard(dot(x, router, embed), where);
  return softmax(scores, hidden); // here
});
constexpr auto plan = cleave::plan<Gates(Tokens, Router)>(f);
static_assert(plan.collectives() == 1);

int main() {}
