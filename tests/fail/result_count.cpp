// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a different number of tensors than is expected of it" result_count result_count.cpp:@here op=function expected<2> got<1>
// fix: Make the two numbers equal: `plan<X(X)>(f)`, or return two tensors from the function, `std::tuple(x + 1, x)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<std::tuple<X, X>(X)>(f); // here

int main() {}
