// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> op=exp axis=model
// expect: "repair=reshard(a, mesh(batch / data, embed))" "repair=reshard(a, mesh(batch / data / model, embed))"
// repair: p, where a is p
// fix: Reduce the sum where you want its all-reduce: `exp(reshard(p, mesh(batch / data, embed)))`. Sums, differences,
// fix: multiples and `dot` accept unreduced values.
#include "names.hpp"

using namespace fail_test;

using P = cleave::abstract<float, mesh(batch / data, embed, cleave::unreduced(model))>;
constexpr cleave::function f([](auto p) {
  return exp(p); // here
});
constexpr auto plan = cleave::plan<X(P)>(f);

int main() {}
