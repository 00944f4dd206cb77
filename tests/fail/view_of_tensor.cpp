// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is no View" tensor_as_view view_of_tensor.cpp:@here
// fix: Ask for the View of this device's shard: `auto v = x.view();`
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

void viewed(Tensor& x) { Kokkos::View<float**> v(x); } // here

int main() {}
