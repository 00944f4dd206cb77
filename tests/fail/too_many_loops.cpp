// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "at most 64 loops" too_many_loops line<@here> op=scan
// fix: Equal layers are one loop: stack their weights and `scan` them. Derivatives of loops count as loops too.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  cleave::value h = sum(x, batch);
  for (int i = 0; i < 65; ++i)
    h = cleave::scan(batch, h, cleave::value(x), [](const auto& v, const auto& row) { return v + row; }); // here
  return x + h;
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
