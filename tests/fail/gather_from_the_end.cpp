// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "does not count from the end" index_negative line<@here> op=gather
// fix: Write `gather(x, batch, count<int>(x, batch) - 1)`.
#include "names.hpp"

#include <cleave/expr/lookup.hpp>

using namespace fail_test;

using Y = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto x) {
  return cleave::gather(x, batch, -1); // here
});
constexpr auto plan = cleave::plan<Y(X)>(f);

int main() {}
