// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments op=one_hot one_hot_of_classes.cpp:@here
// fix: The number of classes is the extent of the dim: `one_hot(labels, embed)`.
#include "names.hpp"

using namespace fail_test;

using Labels = cleave::abstract<int, mesh(batch / data)>;
constexpr cleave::function f([](auto x, auto labels) {
  return one_hot(labels, embed, 10) + x; // here
});
constexpr auto plan = cleave::plan<X(X, Labels)>(f);
static_assert(plan.collectives() == 0);

int main() {}
