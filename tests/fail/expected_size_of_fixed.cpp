// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "whose type fixes another one" size_is_fixed expected_size_of_fixed.cpp:@here dim=row expected<4> got<5>
// fix: Expect the size that the type has, or declare the dim without one: `dim<"row">`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::dim<"row", 4> row;
using Y = cleave::abstract<float, mesh(row / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Y(Y)>(f, cleave::expect<row, 5>{}); // here
static_assert(plan.collectives() == 0);

int main() {}
