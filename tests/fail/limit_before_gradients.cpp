// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: limit_before_gradients.cpp:@here clip_by_global_norm
// of: the compiler
// fix: The gradients come first: `clip_by_global_norm(gradients, 1.0)`.
#include "names.hpp"

#include <cleave/optim/clip.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto gradients) {
  return cleave::optim::clip_by_global_norm(1.0, gradients); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
