// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh has at most 7 axes" too_many_axes too_many_axes.cpp:@here op=mesh expected<7> got<8>
// fix: Replace axes that always shard the same dims by one axis; its size is the product of theirs.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::axis<"a"> a;
constexpr cleave::axis<"b"> b;
constexpr cleave::axis<"c"> c;
constexpr cleave::axis<"d"> d;
constexpr cleave::axis<"e"> e;
constexpr cleave::mesh bad{a, b, c, d, e, data, model, expert}; // here
using Y = cleave::abstract<float, bad(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Y(Y)>(f);

int main() {}
