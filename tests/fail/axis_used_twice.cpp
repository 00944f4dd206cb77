// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this axis is used twice in one layout" axis_used_twice data embed
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / data, embed / data)>; // here
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Bad(Bad)>(f);

int main() {}
