// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "functions of namespace std take numbers" standard_function standard_clamp.cpp:@here op=clamp
// fix: Write `maximum(minimum(x, y), z)`.
#include "names.hpp"

#include <algorithm>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto y) {
  return std::clamp(x, y, 2 * y); // here
});
constexpr auto plan = cleave::plan<X(X, X)>(f);

int main() {}
