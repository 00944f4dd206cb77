// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a struct of tensors in a signature is a template" struct_of_one_kind struct_of_abstracts.cpp:@here
// fix: Write `template <template <class, auto> class Tensor> struct weights`, with `Tensor<float, layout>` fields.
#include "names.hpp"

using namespace fail_test;

struct weights {
  X x;
  std::array<W, 2> w;
};
constexpr cleave::function f([](auto p) { return p.x + dot(p.x, p.w[0], embed); });
constexpr auto plan = cleave::plan<X(weights)>(f); // here

int main() {}
