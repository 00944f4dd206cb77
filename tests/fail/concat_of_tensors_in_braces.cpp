// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "without braces" dims_in_braces op=concat concat_of_tensors_in_braces.cpp:@here
// needs: runtime
// fix: Write `z = concat(both, piece(x, batch), piece(y, batch))`, where `both` is the dim of the result.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Field = cleave::tensor<float, mesh(batch / data, embed)>;
void join(Field& x, Field& y, Field& z) {
  z = cleave::concat({x, y}, batch); // here
}

int main() {}
