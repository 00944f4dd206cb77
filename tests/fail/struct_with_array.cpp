// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a struct without base classes, references and C arrays" not_an_argument struct_with_array.cpp:@here
// fix: Write `std::array`: `std::array<Tensor<float, layout>, 2> a;`.
#include "names.hpp"

using namespace fail_test;

template <template <class, auto> class Tensor>
struct pair {
  Tensor<float, mesh(batch / data, embed)> a[2];
};
constexpr cleave::function f([](auto p) { return p.a + 1; });
constexpr auto plan = cleave::plan<X(pair<cleave::abstract>)>(f); // here

int main() {}
