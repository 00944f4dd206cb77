// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: sum method_of_tensor.cpp:@here
// of: the compiler
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x.sum(embed); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh(batch / data)>(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
