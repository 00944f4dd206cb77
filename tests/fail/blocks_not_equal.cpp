// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "this operation needs equal blocks" blocks_not_equal line<@here> op=grid_cholesky dim=row
// fix: `rename(a, row, other)`, where `other` is a dim with equal blocks, moves the elements in one exchange. Rename
// fix: the result back.
#include <cleave/linalg/grid_factor.hpp>
#include <cleave/plan/plan.hpp>

constexpr cleave::axis<"y"> y;
constexpr cleave::axis<"x"> x;
constexpr cleave::mesh mesh{y, x};
constexpr cleave::dim_in_blocks<"row", "cells"> row;
constexpr cleave::dim<"col"> col;
using A = cleave::abstract<double, mesh(row / y, col / x)>;
constexpr cleave::function f([](auto a) {
  return cleave::linalg::grid_cholesky<8>(a, mesh(row / y, col / x)); // here
});
constexpr auto plan = cleave::plan<A(A)>(f);

int main() {}
