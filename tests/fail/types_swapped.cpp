// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not swap their memory" types_swapped types_swapped.cpp:@here
// needs: runtime
// fix: Assign the elements: `Turned c(a); a = b; b = c;`. Tensors of one type are swapped by `std::swap`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Field = cleave::tensor<float, mesh(batch / data, embed)>;
using Turned = cleave::tensor<float, mesh(batch, embed / data)>;
void exchange(Field& a, Turned& b) {
  std::swap(a, b); // here
}

int main() {}
