// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "is a name and has no number" dim_as_number size_compared.cpp:@here
// fix: Write `{batch = 1024}`, with one `=`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<X(X)>(f);
constexpr auto bytes = plan.bytes({batch == 1024}); // here

int main() {}
