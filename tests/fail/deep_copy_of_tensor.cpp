// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is no View" tensor_as_view deep_copy_of_tensor.cpp:@here
// fix: Assign the tensor, `y = x`, or name the View of its shard: `Kokkos::deep_copy(y.view(), x.view())`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

void copied(Tensor& x, Tensor& y) { Kokkos::deep_copy(y, x); } // here

int main() {}
