// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim appears twice in one tensor" dim_used_twice dim_used_twice.cpp:@here op=layout dim=batch
// fix: Dims are distinguished by name, so a matrix of batch by batch needs a second name. Declare
// fix: `dim<"other_batch">`, and inside a function use `rename(x, batch, other_batch)`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / data, batch)>; // here
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Bad(Bad)>(f);

int main() {}
