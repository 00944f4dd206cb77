// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a loop carry must keep" carry_changes body_returns_pair.cpp:@here
// fix: Return the carried values, as the body was given it.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::repeat_times(10, x, [](auto h) { return std::pair(h, h); }); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
