// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a random key" not_a_key line<@here> op=uniform
// fix: Make the key an integer argument, `std::uint32_t`. Use it or the result of `fold_in`: `uniform(fold_in(key,
// fix: step), batch, embed)`.
#include "names.hpp"

#include <cleave/expr/random.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto rate) {
  return x + cleave::uniform(rate, batch, embed); // here
});
constexpr auto plan = cleave::plan<X(X, float)>(f);

int main() {}
