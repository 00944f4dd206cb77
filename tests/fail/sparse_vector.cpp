// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the tensor does not have this dim" dim_missing line<@here> op=multiply dim=hidden
// fix: Multiply with a value that has the dim of the columns, or rename its dim:
// fix: `multiply(a, rename(x, embed, hidden))`.
#include "names.hpp"

#include <cleave/sparse/matrix.hpp>

using namespace fail_test;

using Matrix = cleave::sparse::csr<float, mesh(batch / data), hidden>;
using V = cleave::abstract<float, mesh(embed)>;
using Y = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto a, auto x) {
  return cleave::sparse::multiply(a, x); // here
});
constexpr auto plan = cleave::plan<Y(Matrix, V)>(f);

int main() {}
