// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim has two different fixed extents" extents_differ extents_differ.cpp:@here op=input dim=embed expected<512> got<256>
// fix: Use one `dim` object for both tensors. If the extents should differ, they are two dims: give the second one
// fix: another name.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim<"embed", 512> wide;
constexpr cleave::dim<"embed", 256> narrow;
using A = cleave::abstract<float, mesh(batch / data, wide)>;
using B = cleave::abstract<float, mesh(narrow)>;
constexpr cleave::function f([](auto a, auto b) { return a + b; });
constexpr auto plan = cleave::plan<A(A, B)>(f); // here

int main() {}
