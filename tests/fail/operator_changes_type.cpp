// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "must have the dims and the element type of its right-hand side" operator_changes_type line<@here> dim=embed
// fix: Return a value with the dims and the element type of the argument: `dot(a, rename(x, embed, hidden), hidden)`
// fix: keeps `embed`, and `sum(x, embed)` does not.
#include "names.hpp"

#include <cleave/solve/cg.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cleave::solve::cg([](auto u) { return sum(u, embed); }, x).solution; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
