// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim appears twice" dim_used_twice line<@here> op=rename dim=embed
// fix: Rename to a dim that the tensor does not have.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return rename(x, batch, embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
