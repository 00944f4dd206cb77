// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have different dims" assignment_to_other_dims assignment_to_other_dims.cpp:@here op=assignment dim=embed
// fix: Ask for the dims that the function returns, in any order, here `plan<H(X, W)>(f)`. Or reduce or rename dims
// fix: inside the function.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) { return dot(x, w, embed); });
constexpr auto plan = cleave::plan<X(X, W)>(f); // here

int main() {}
