// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor of integers or bools; convert it first" fraction_into_integers fill_by_fractions.cpp:@here
// fix: Convert the result of the function: `static_cast<int>(at[0] * 0.5)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Indices = cleave::tensor<std::int32_t, mesh(batch / data)>;
void run(Indices& i) {
  i.fill_by([](auto at) { return 0.5 * static_cast<double>(at[0]); }); // here
}

int main() {}
