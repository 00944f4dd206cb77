// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the elements of a tensor are in its shards" tensor_indexed tensor_subscript.cpp:@here
// mend: Write `x.view()(i, j)` for an element of this device's shard.
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;
using S = cleave::tensor<float, mesh()>;

float first(const X& x) {
  return x[0]; // here
}

int main() {}
