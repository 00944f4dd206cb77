// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a different number of tensors than is expected of it" result_count wrong_field_count.cpp:@here
// fix: Return as many values as the result has fields.
#include "names.hpp"

#include <array>

using namespace fail_test;

constexpr cleave::function f([](auto x) { return std::tuple(x, x + 1, x + 2); });
constexpr auto plan = cleave::plan<std::array<X, 2>(X)>(f); // here

int main() {}
