// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a layout of dims with the axes that shard them" not_a_layout layout_over_axis.cpp:@here
// fix: Shard a dim: `mesh(batch / data, embed / model)`.
#include "names.hpp"

using namespace fail_test;

using Y = cleave::abstract<float, mesh(batch, embed) / model>; // here
constexpr cleave::function f([](auto x) { return x; });
constexpr auto plan = cleave::plan<Y(Y)>(f);

int main() {}
