// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "constrained twice, to two different layouts" pinned_layouts_conflict line<@here> op=constrain dim=batch
// expect: "repair=reshard(a, mesh(batch / model, embed))"
// repair: constrain(y, mesh(batch / model)), where a is y
// fix: Keep one of the two constraints. To move the value from one layout to the other on purpose, with communication,
// fix: write `reshard(y, mesh(batch / model, embed))`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto y = constrain(x, mesh(batch / data));
  return constrain(y, mesh(batch / model)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
