// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "fill_by a function of the array of a global index" not_a_fill fill_by_lambda.cpp:@here
// mend: Write `x.fill_by(f)` for a function of the indices.
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

void filled(X& x) {
  x.fill([](const auto&) { return 1.0f; }); // here
}

int main() {}
