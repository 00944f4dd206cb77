// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a sum of bools would be a bool" sum_of_bools line<@here> op=cumulative_sum
// fix: Count the elements: `cumulative_sum(cast<int>(x > 0), embed)`.
#include "names.hpp"

#include <cleave/expr/cumulative.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * cast<float>(cumulative_sum(x > 0, embed)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
