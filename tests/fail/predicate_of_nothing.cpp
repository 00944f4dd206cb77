// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "takes another number of them, or other types" arguments_do_not_fit predicate_of_nothing.cpp:@here
// fix: The predicate takes the result of the body.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::repeat_until(x, [](auto h) { return 2.0f * h; }, [] { return true; }, 10); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
