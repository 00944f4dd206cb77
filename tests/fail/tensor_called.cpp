// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the elements of a tensor are in its shards" tensor_indexed tensor_called.cpp:@here
// fix: Write `x.view()(i, j)` for an element of this device's shard.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

float first(const Tensor& x) {
  return x(0, 1); // here
}

int main() {}
