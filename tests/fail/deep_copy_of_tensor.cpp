// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is no View" tensor_as_view deep_copy_of_tensor.cpp:@here
// mend: Assign the tensor, `y = x`, or name the View of its shard: `Kokkos::deep_copy(y.view(), x.view())`.
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

void copied(X& x, X& y) { Kokkos::deep_copy(y, x); } // here

int main() {}
