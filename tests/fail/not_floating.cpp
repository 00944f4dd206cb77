// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this operation needs real floating-point numbers" not_floating line<@here> op=variance
// fix: Cast first, to the type of the result: `variance(cast<float>(x), batch)`.
#include "names.hpp"

#include <cleave/expr/reductions.hpp>

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
using Spread = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto x) {
  return variance(x, batch); // here
});
constexpr auto plan = cleave::plan<Spread(I)>(f);

int main() {}
