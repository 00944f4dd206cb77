// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "are not converted to real numbers implicitly" not_for_complex fill_real_with_complex.cpp:@here
// fix: Give its real part: `x.fill(z.real())`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void run(Matrix& x, Kokkos::complex<float> z) {
  x.fill(z); // here
}

int main() {}
