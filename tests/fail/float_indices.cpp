// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "must have an integer element type" not_an_index line<@here> op=gather
// fix: Cast the indices: `gather(table, hidden, cast<int>(ids))`.
#include "names.hpp"

#include <cleave/expr/lookup.hpp>

using namespace fail_test;

using Table = cleave::abstract<float, mesh(hidden, embed)>;
using Ids = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto table, auto ids) {
  return gather(table, hidden, ids); // here
});
constexpr auto plan = cleave::plan<X(Table, Ids)>(f);

int main() {}
