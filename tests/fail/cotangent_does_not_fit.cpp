// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a cotangent has other dims or another element type" cotangent_does_not_fit line<@here> op=vjp
// fix: Give the pullback a value with the dims and the element type of the result, here `pullback(y)`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

constexpr cleave::function slope([](auto x) {
  const auto [y, pullback] = cleave::vjp([](auto v) { return sum(v, embed); }, x);
  return pullback(x * 2); // here
});
constexpr auto plan = cleave::plan<X(X)>(slope);
static_assert(plan.collectives() == 0);

int main() {}
