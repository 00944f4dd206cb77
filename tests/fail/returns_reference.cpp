// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "returns a reference" reference_returned returns_reference.cpp:@here
// fix: Let the result type be `auto`.
// lines-clang: 28 clang warns as well
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) -> const auto& { return x; });
constexpr auto plan = cleave::plan<X(X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
