// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have different dims" assignment_to_other_dims result_not_reduced.cpp:@here dim=embed
// fix: Reduce the value, `sum(x * x, embed)`, or declare the result with the dim.
#include "names.hpp"

using namespace fail_test;

using R = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto x) { return x * x; });
constexpr auto plan = cleave::plan<R(X)>(f); // here

int main() {}
