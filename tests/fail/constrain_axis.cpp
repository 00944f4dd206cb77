// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this axis is not in the mesh" axis_not_in_mesh constrain_axis.cpp:@here op=layout dim=batch axis=expert
// fix: A layout inside a function follows the same rules as the layout of a tensor. Use an axis of the mesh,
// fix: `constrain(x, mesh(batch / model))`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return constrain(x, mesh(batch / expert)); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
