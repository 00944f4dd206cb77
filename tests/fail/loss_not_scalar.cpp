// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the first result of the function must be a rank-0 floating-point number" loss_not_scalar line<@here> op=dot dim=batch
// fix: Return the loss first, and reduce it to one number: `sum(dot(x, w, embed))`, or `mean`. For the derivative of
// fix: more than one number use `vjp`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

constexpr cleave::function loss([](auto w, auto x) {
  return dot(x, w, embed); // here
});
constexpr auto plan = cleave::plan<W(W, X)>(cleave::grad(loss));
static_assert(plan.collectives() == 1);

int main() {}
