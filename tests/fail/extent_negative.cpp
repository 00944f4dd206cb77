// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the extent of a dim must not be negative" extent_negative extent_negative.cpp:@here op=dim dim=row expected<0> got<-5>
// fix: Give an extent that is at least 0, `dim<"row", 5>`, or take it from the tensors, `dim<"row">`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim<"row", -5> row; // here
using Y = cleave::abstract<float, mesh(row / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Y(Y)>(f);

int main() {}
