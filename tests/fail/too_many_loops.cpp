// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "at most 32 loops" too_many_loops line<@here> op=scan
// mend: Layers that are alike are one loop: stack their weights and `scan` them. Derivatives count as loops too.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  cleave::value h = x;
  for (int i = 0; i < 33; ++i) h = cleave::repeat_times(2, h, [](auto v) { return 2.0f * v; }); // here
  return h;
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
