// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "of dims or axes in parentheses, C++ keeps the last one alone" comma_of_names comma_of_dims.cpp:@here
// fix: Dims are arguments: `sum(x, batch, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return sum(x, (batch, embed)); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh()>(cleave::abstract<float, mesh(batch / data, embed)>)>(
    f);

int main() {}
