// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes another number of them, or other types" arguments_do_not_fit body_with_counter.cpp:@here
// fix: The body takes the values carried from one iteration to the next. A counter is part of it: `std::tuple(x, i)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::repeat_times(10, x, [](auto i, auto h) { return h + i; }); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
