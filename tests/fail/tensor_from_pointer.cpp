// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor is constructed with a grid" wrong_construction tensor_from_pointer.cpp:@here
// needs: runtime
// fix: Wrap the memory in an unmanaged View: `Matrix a(grid, {rows, columns}, Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(p, rows, columns))`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void wrap(const cleave::grid& g, float* p) {
  Matrix a(g, {4, 2}, p); // here
}

int main() {}
