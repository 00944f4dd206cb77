// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor is constructed with a grid" wrong_construction tensor_from_vector.cpp:@here
// needs: runtime
// fix: Wrap the memory of the vector in an unmanaged View, or copy the elements into `a.view()`.
#include "names.hpp"

#include <cleave/cleave.hpp>

#include <vector>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void wrap(const cleave::grid& g, const std::vector<float>& v) {
  Matrix a(g, {4, 2}, v); // here
}

int main() {}
