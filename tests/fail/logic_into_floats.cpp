// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the element types do not match" element_types_differ logic_into_floats.cpp:@here op=assignment
// fix: Comparisons and logic give bool. Choose between numbers with `select((x > 0) & (y > 0), x, 0)`, or cast.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) { return (x > 0) & (y > 0); });
constexpr auto plan = cleave::plan<X(X, X)>(f); // here

int main() {}
