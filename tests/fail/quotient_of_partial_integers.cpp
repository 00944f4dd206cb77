// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=div axis=model
// repair: p, where a is p
// fix: Quotients of integers are truncated, so the quotients of partial sums do not add up. Reduce the sum first:
// fix: `reshard(p, mesh(batch / data)) / 3`.
#include "names.hpp"

using namespace fail_test;

using P = cleave::abstract<int, mesh(batch / data, cleave::unreduced(model))>;
using Q = cleave::abstract<int, mesh(batch / data)>;
constexpr cleave::function f([](auto p) {
  return p / 3; // here
});
constexpr auto plan = cleave::plan<Q(P)>(f);

int main() {}
