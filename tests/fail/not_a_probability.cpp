// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a probability must be from 0 to 1" not_a_probability line<@here> op=dropout
// fix: Give the share that is dropped, between 0 and 1, not the share that is kept: `dropout(x, 0.1, key)` drops a
// fix: tenth.
#include "names.hpp"

#include <cleave/expr/random.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto key) {
  return dropout(x, 10, key); // here
});
constexpr auto plan = cleave::plan<X(X, std::uint32_t)>(f);

int main() {}
