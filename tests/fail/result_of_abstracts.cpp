// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a struct of tensors in a signature is a template" struct_of_one_kind result_of_abstracts.cpp:@here
// fix: Return `std::tuple(sin(x), cos(x))`, or a struct that is a template over the tensor template.
#include "names.hpp"

using namespace fail_test;

struct waves {
  X sine, cosine;
};
constexpr cleave::function f([](auto x) { return std::tuple(sin(x), cos(x)); });
constexpr auto plan = cleave::plan<waves(X)>(f); // here

int main() {}
