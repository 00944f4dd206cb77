// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "one operand does not have the contracted dim" contracted_dim_missing line<@here> dot hidden
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) {
  return dot(x, w, hidden); // here
});
constexpr auto plan = cleave::plan<H(X, W)>(f);
static_assert(plan.count(cleave::kind::all_reduce) == 1);

int main() {}
