// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no function of this name" written_otherwise select_by_other_name.cpp:@here op=where
// fix: Write `select(x > 0, x, 0)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::where(x > 0, x, 0); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
