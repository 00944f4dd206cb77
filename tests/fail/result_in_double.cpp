// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the element types do not match" element_types_differ result_in_double.cpp:@here op=assignment
// fix: Return `cast<double>(x + 1)`, or assign to a tensor of floats.
#include "names.hpp"

using namespace fail_test;

using Wide = cleave::abstract<double, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Wide(X)>(f); // here

int main() {}
