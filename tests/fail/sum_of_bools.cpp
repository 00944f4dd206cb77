// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a sum of bools would be a bool" sum_of_bools line<@here> op=sum
// fix: Count the elements: `sum(cast<int>(x > 0))`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * cast<float>(sum(x > 0)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
