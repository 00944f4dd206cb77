// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "have different element types" view_elements_differ "view_elements_differ, double, float" view_elements_differ.cpp:@here
// fix: Declare the tensor with the element type of the View, `tensor<double, ...>`. To convert, wrap the View in such
// fix: a tensor and assign `b = cast<float>(a)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void wrap(const cleave::grid& grid, Kokkos::View<double**, Kokkos::LayoutRight> mine) {
  Matrix a(grid, {8, 4}, mine); // here
}

int main() {}
