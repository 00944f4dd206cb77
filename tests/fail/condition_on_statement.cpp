// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a statement computes nothing before it is assigned" statement_as_number condition_on_statement.cpp:@here
// mend: Assign it first: `S s(sum(x)); if (s.item() > 0.5f) ...`
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;
using S = cleave::tensor<float, mesh()>;

int exit_code(const S& s) {
  if (s > 0.5f) return 1; // here
  return 0;
}

int main() {}
