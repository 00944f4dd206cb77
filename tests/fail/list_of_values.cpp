// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor, a number, or an aggregate" not_an_argument list_of_values.cpp:@here
// fix: Return a `std::array` or a `std::tuple`: how many results there are is part of the type.
#include "names.hpp"

#include <vector>

using namespace fail_test;

constexpr cleave::function f([](auto x) { return std::vector{x, x + 1}; });
constexpr auto plan = cleave::plan<X(X)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
