// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the tensor does not have this dim" dim_missing line<@here> op=triangular_solve dim=embed
// fix: The right-hand side has the rows of the matrix, and the result has its columns in that position. `rename` the
// fix: dim of one of them.
#include "names.hpp"

#include <cleave/linalg/recorded.hpp>

using namespace fail_test;

using Matrix = cleave::abstract<float, mesh(embed, hidden)>;
using Sides = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto l, auto b) {
  return cleave::linalg::triangular_solve(l, b, embed, hidden); // here
});
constexpr auto plan = cleave::plan<Sides(Matrix, Sides)>(f);
static_assert(plan.collectives() == 0);

int main() {}
