// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "used outside of it" value_of_a_body line<@here> op=add
// fix: Return it from both branches.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto y = x;
  auto z = cleave::cond(sum(x) > 0, [&](auto v) { return y = 2 * v; }, [](auto v) { return 3 * v; }, x);
  return y + z; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
