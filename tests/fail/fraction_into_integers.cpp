// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor of integers or bools; convert it first" fraction_into_integers fraction_into_integers.cpp:@here
// fix: Write a whole number, or `static_cast<int>(3.7)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Indices = cleave::tensor<std::int32_t, mesh(batch / data)>;
void run(Indices& i) {
  i = 3.7; // here
}

int main() {}
