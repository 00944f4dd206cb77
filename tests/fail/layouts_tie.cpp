// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cost the same; constrain it to choose" layouts_tie line<@here> op=add dim=batch
// expect: "repair=constrain(a + b, mesh(batch / data, embed))" "repair=constrain(a + b, mesh(batch, embed / data))"
// repair: a + b
// fix: Choose a layout: `exp(constrain(a + b, mesh(batch / data)))`.
#include "names.hpp"

using namespace fail_test;

using A = cleave::abstract<float, mesh(batch / data, embed)>;
using B = cleave::abstract<float, mesh(batch, embed / data)>;
using Whole = cleave::abstract<float, mesh(batch, embed)>;
constexpr cleave::function f([](auto a, auto b) {
  return exp(a + b); // here
});
constexpr auto plan = cleave::plan<Whole(A, B)>(f);
static_assert(plan.collectives() == 2);

int main() {}
