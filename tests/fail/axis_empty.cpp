// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh axis has at least one device" axis_empty axis_empty.cpp:@here op=axis axis=rows expected<1> got<0>
// fix: Give the number of devices, `axis<"rows", 4>`, or give it at run time, `axis<"rows">`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::axis<"rows", 0> rows; // here
constexpr cleave::mesh one_axis{rows};
using Y = cleave::abstract<float, one_axis(batch / rows, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Y(Y)>(f);

int main() {}
