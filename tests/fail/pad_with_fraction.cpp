// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "is a whole number with a sign" not_a_whole_number pad_with_fraction.cpp:@here
// fix: The value of the new elements comes last: `pad(x, batch, hidden, 0, 1, 0, 7.0)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

using Y = cleave::abstract<float, mesh(hidden, embed)>;
constexpr cleave::function f([](auto x) {
  return cleave::pad(x, batch, hidden, 0, 1, 7.0); // here
});
constexpr auto plan = cleave::plan<Y(X)>(f);

int main() {}
