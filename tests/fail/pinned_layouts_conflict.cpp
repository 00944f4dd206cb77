// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "two layouts pinned by the user conflict" pinned_layouts_conflict line<@here> constrain batch
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto y = constrain(x, mesh(batch / data));
  return constrain(y, mesh(batch / model)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
