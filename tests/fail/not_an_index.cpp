// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "must have an integer element type" not_an_index line<@here> op=gather
// fix: Cast the indices: `gather(table, embed, cast<int>(ids))`.
#include "names.hpp"

#include <cleave/expr/lookup.hpp>

using namespace fail_test;

using Ids = cleave::abstract<float, mesh(hidden)>;
using Y = cleave::abstract<float, mesh(batch / data, hidden)>;
constexpr cleave::function f([](auto x, auto ids) {
  return gather(x, embed, ids); // here
});
constexpr auto plan = cleave::plan<Y(X, Ids)>(f);

int main() {}
