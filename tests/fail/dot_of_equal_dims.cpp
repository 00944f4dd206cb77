// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "dot without dims is an outer product" nothing_contracted line<@here> op=dot
// fix: Name the dims: `dot(x, x, batch, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x / sqrt(dot(x, x)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
