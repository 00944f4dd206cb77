// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have different dims" assignment_to_other_dims assignment hidden
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) { return dot(x, w, embed); });
constexpr auto plan = cleave::plan<X(X, W)>(f); // here

int main() {}
