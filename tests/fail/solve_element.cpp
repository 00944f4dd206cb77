// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "needs real floating-point numbers" not_floating line<@here> op=gmres
// fix: Solve for numbers of type float or double: `gmres<8>(a, cast<double>(b))`.
#include "names.hpp"

#include <cleave/solve/gmres.hpp>

using namespace fail_test;

using Ints = cleave::abstract<int, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return cleave::solve::gmres<8>([](auto u) { return 2 * u; }, x).solution; // here
});
constexpr auto plan = cleave::plan<Ints(Ints)>(f);

int main() {}
