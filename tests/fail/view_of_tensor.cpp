// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is no View" tensor_as_view view_of_tensor.cpp:@here
// mend: Ask for the View of this device's shard: `auto v = x.view();`
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

void viewed(X& x) { Kokkos::View<float**> v(x); } // here

int main() {}
