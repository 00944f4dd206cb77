// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: not_floating "floating-point numbers" line<@here> op=sqrt
// fix: Cast first: `sqrt(cast<float>(i))`. The root of an integer is hardly ever an integer.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto i) {
  return sqrt(i); // here
});
constexpr auto plan = cleave::plan<I(I)>(f);

int main() {}
