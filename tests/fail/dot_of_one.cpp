// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: wrong_arguments dot_of_one.cpp:@here op=dot "do not fit this function"
// fix: `dot` takes two operands and the dims over which it sums: `dot(x, w, embed)`. The sum over a dim is `sum(x, embed)`.
#include "names.hpp"

using namespace fail_test;

using R = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return dot(x, embed); // here
});
constexpr auto plan = cleave::plan<R(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
