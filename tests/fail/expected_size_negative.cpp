// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the extent of a dim must not be negative" extent_negative expected_size_negative.cpp:@here dim=batch
// fix: Give an extent of at least 0, and a size of an axis of at least 1.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X)>(f, cleave::expect<batch, -64>{}); // here
static_assert(plan.collectives() == 0);

int main() {}
