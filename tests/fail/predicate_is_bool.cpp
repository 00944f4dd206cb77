// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "predicate must be a rank-0 bool" not_a_predicate predicate_is_bool.cpp:@here
// fix: Return a comparison of values: `sum(h) > 1.0f`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::repeat_until(x, [](auto h) { return 2.0f * h; }, [](auto) { return true; }, 10); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
