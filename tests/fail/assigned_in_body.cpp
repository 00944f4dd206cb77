// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "used outside of it" value_of_a_body line<@here> op=add
// fix: Carry it: `repeat_times(3, std::pair(x, y), [](auto both) { ... })`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto y = x;
  auto z = cleave::repeat_times(3, x, [&](auto v) {
    y = y * 2;
    return v;
  });
  return y + z; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
