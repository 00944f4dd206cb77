// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "planned for a signature" not_a_signature plan_without_signature.cpp:@here
// fix: Write the result and the arguments: `plan<X(X)>(f)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return 2.0f * x; });
constexpr auto plan = cleave::plan<X>(f); // here

int main() {}
