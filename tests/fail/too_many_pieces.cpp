// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "too many operands: concat takes at most 6, windows at most 3" too_many_pieces line<@here> op=concat dim=hidden
// fix: Concatenate at most six tensors at once, and then the results. `windows` takes at most three dims.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

using Y = cleave::abstract<float, mesh(batch / data, hidden)>;
constexpr cleave::function f([](auto x) {
  const auto p = cleave::piece(x, embed); // here
  return concat(hidden, p, p, p, p, p, p, p);
});
constexpr auto plan = cleave::plan<Y(X)>(f);

int main() {}
