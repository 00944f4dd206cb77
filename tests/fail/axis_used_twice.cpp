// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "in a layout an axis shards one dim only" axis_used_twice axis_used_twice.cpp:@here op=layout dim=embed axis=data
// fix: An axis shards one dim only. Shard the second dim over another axis, `mesh(batch / data, embed / model)`, or
// fix: not at all.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / data, embed / data)>; // here
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Bad(Bad)>(f);

int main() {}
