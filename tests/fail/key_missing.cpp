// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a random key" not_a_key key_missing.cpp:@here op=uniform
// fix: The key comes first: `uniform(key, batch, embed)`.
#include "names.hpp"

#include <cleave/expr/random.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x + cleave::uniform(batch, embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
