// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a kernel captures x.view()" tensor_indexed tensor_in_kernel.cpp:@here
// fix: Capture the View, `const auto v = x.view();` before the kernel and `v(i)` in it: a captured tensor is a copy.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data)>;

void scale(const Tensor& x, float by) {
  Kokkos::parallel_for(
      x.local_size(), KOKKOS_LAMBDA(int i) {
        x(i) *= by; // here
      });
}

int main() {}
