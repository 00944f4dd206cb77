// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "an operation that needs the complete value; reshard it first" unreduced_into_nonlinear line<@here> "op=gradient of reduce" axis=model
// fix: The derivative of a maximum needs to know which elements attain it. Reduce the partial values first:
// fix: `max(reshard(p, mesh(batch / data)))`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

using P = cleave::abstract<float, mesh(batch / data, cleave::unreduced<cleave::reduction::max>(model))>;
using G = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto p) {
  return max(p); // here
});
constexpr auto plan = cleave::plan<G(P)>(cleave::grad(f));

int main() {}
