// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not broadcast" dims_do_not_broadcast line<@here> add embed
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto h) {
  return x + h; // here
});
constexpr auto plan = cleave::plan<X(X, H)>(f);

int main() {}
