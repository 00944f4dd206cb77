// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the number of iterations must be a rank-0 integer" not_a_count line<@here> op=repeat_times
// fix: Give a literal, or an int argument of the function: `cleave::function([](auto times, auto x) { return
// fix: repeat_times(times, x, f); })`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::repeat_times(sum(x), x, [](auto v) { return 2.0f * v; }); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
