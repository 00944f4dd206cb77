// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "one of its operands does not have it" contracted_dim_missing line<@here> op=dot dim=hidden
// fix: Contract over a dim that both have: `dot(x, w, embed)`.
#include "names.hpp"

using namespace fail_test;

using Out = cleave::abstract<float, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x, auto w) {
  return dot(x, w, hidden); // here
});
constexpr auto plan = cleave::plan<Out(X, W)>(f);

int main() {}
