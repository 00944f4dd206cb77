// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: carry_changes "must keep its element type and dims" line<@here> op=cond dim=embed
// fix: Both branches return values of the same dims and element types.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::cond(sum(x) > 0.0f, [](auto v) { return v; }, [](auto v) { return sum(v, embed); }, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
