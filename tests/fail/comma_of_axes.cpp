// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "of dims or axes in parentheses, C++ keeps the last one alone" comma_of_names comma_of_axes.cpp:@here
// fix: Name the axes one after another, the major one first: `batch / data / model`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / (data, model))>; // here

int main() {}
