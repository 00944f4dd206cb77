// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: no member field_missing.cpp:@here
// of: the compiler
#include "names.hpp"

using namespace fail_test;

template <template <class, auto> class Tensor>
struct weights {
  Tensor<float, mesh(embed, hidden / model)> up;
};
constexpr cleave::function f([](auto x, auto w) {
  return dot(x, w.gate, embed); // here
});
constexpr auto plan = cleave::plan<H(X, weights<cleave::abstract>)>(f);
static_assert(plan.collectives() == 0);

int main() {}
