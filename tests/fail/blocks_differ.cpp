// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim has blocks of given sizes in one operand" blocks_differ blocks_differ.cpp:@here op=input dim=embed
// fix: Use one `dim` object for both tensors. To move the elements of one of them, `rename(b, even, embed)`, where
// fix: `even` is another dim, with equal blocks.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim_in_blocks<"embed", "given"> given;
constexpr cleave::dim<"embed"> equal;
using A = cleave::abstract<float, mesh(batch / data, given)>;
using B = cleave::abstract<float, mesh(equal)>;
constexpr cleave::function f([](auto a, auto b) { return a + b; });
constexpr auto plan = cleave::plan<A(A, B)>(f); // here

int main() {}
