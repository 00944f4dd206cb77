// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is constructed with a grid" wrong_construction tensor_with_value.cpp:@here
// mend: Fill the tensor in a second statement: `X x(grid, {4, 2}); x.fill(1.0f);`
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

X made(const cleave::grid& g) { return X(g, {4, 2}, 1.0f); } // here

int main() {}
