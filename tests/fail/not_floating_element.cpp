// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this operation needs real floating-point numbers" not_floating "not_floating, int" not_floating_element.cpp:@here
// fix: Draw bits, `random_bits(key, batch)`, or cast floating-point numbers: `cast<int>(floor(6 * uniform(key,
// fix: batch)))`.
#include "names.hpp"

#include <cleave/expr/random.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto key) {
  return x + cast<float>(cleave::uniform<int>(key, batch)); // here
});
constexpr auto plan = cleave::plan<X(X, std::uint32_t)>(f);

int main() {}
