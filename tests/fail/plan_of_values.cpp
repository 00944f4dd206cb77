// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "planned for a signature" not_a_signature plan_of_values.cpp:@here
// fix: Write types of tensors, which have layouts: `plan<X(X)>(f)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<cleave::value(cleave::value)>(f); // here

int main() {}
