// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the elements of a tensor are in its shards" tensor_indexed for_over_tensor.cpp:@here
// fix: Write elements with `x.fill_by`, or in a kernel with `x.view()`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data)>;

void clear(Tensor& x) {
  for (float& each : x) each = 0; // here
}

int main() {}
