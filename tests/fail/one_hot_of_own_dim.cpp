// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "appears twice in one tensor" dim_used_twice line<@here> op=one_hot dim=batch
// fix: The classes are a dim of their own: `one_hot(labels, classes)`.
#include "names.hpp"

using namespace fail_test;

using L = cleave::abstract<int, mesh(batch / data)>;
using Y = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return one_hot(x, batch); // here
});
constexpr auto plan = cleave::plan<Y(L)>(f);

int main() {}
