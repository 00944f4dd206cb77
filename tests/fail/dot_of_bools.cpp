// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a sum of bools would be a bool" sum_of_bools line<@here> op=dot
// fix: Count the elements: `dot(cast<int>(x > 0), cast<int>(x > 1), embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * cast<float>(dot(x > 0, x > 1, embed)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
