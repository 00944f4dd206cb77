// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "not linear for its reduction" unreduced_into_nonlinear line<@here> exp model
#include "names.hpp"

using namespace fail_test;

using P = cleave::abstract<float, mesh(batch / data, embed, cleave::unreduced(model))>;
constexpr cleave::function f([](auto p) {
  return exp(p); // here
});
constexpr auto plan = cleave::plan<X(P)>(f);

int main() {}
