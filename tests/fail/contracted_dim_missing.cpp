// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "dot sums over this dim, but one of its operands does not have it" contracted_dim_missing line<@here> op=dot dim=hidden
// fix: Contract a dim that both operands have, here `dot(x, w, embed)`. If the same index has two names, `rename` one
// fix: operand first.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) {
  return dot(x, w, hidden); // here
});
constexpr auto plan = cleave::plan<H(X, W)>(f);
static_assert(plan.count(cleave::kind::all_reduce) == 1);

int main() {}
