// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: not_floating "floating-point numbers" line<@here> op=mean
// fix: Cast first: `mean(cast<float>(i), batch)`. For a quotient of integers write it: `sum(i, batch) / n`.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
using R = cleave::abstract<int, mesh(embed)>;
constexpr cleave::function f([](auto i) {
  return mean(i, batch); // here
});
constexpr auto plan = cleave::plan<R(I)>(f);

int main() {}
