// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a loop whose number of iterations is known only at run time has no derivative" iterations_not_known line<@here> op=gradient
// fix: Use `scan` along a dim with one index for each iteration, or wrap the loop in `custom_vjp`, whose rule gives
// fix: the gradient.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function loss([](auto x) {
  return sum(
      cleave::repeat_until(x, [](auto v) { return 0.5f * v; }, [](auto v) { return max(v) < 1.0f; }, 100)); // here
});
constexpr auto plan = cleave::plan<X(X)>(cleave::grad(loss));

int main() {}
