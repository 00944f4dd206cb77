// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "captures a value that the gradient depends on; make it an argument" captures_a_variable line<@here> op=custom_vjp
// fix: Pass the value to the function, `scaled(x, y)`, and return its cotangent from `backward` too.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

constexpr cleave::function loss([](auto x, auto y) {
  const auto scaled = cleave::custom_vjp([=](auto u) { return std::pair(u * y, std::tuple(u)); }, // here
                                         [=](auto, auto g) { return g * y; });
  return sum(scaled(x));
});
constexpr auto plan = cleave::plan<X(X, X)>(cleave::grad<1>(loss));
static_assert(plan.collectives() == 0);

int main() {}
