// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "can be assigned to a tensor" not_assignable assign_vector.cpp:@here
// needs: runtime
// fix: Write the elements with `fill_by` or through `view()`, or wrap a View of the shard.
#include "names.hpp"

#include <cleave/cleave.hpp>

#include <vector>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void fill(Matrix& a, const std::vector<float>& v) {
  a = v; // here
}

int main() {}
