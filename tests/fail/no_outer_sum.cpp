// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "do not broadcast" dims_do_not_broadcast line<@here> op=add "repair=broadcast(a, batch, embed, hidden) + b"
// repair: x + w, where a is x, b is w
// fix: One operand has all the dims of the other. Give one of them the missing dim: `broadcast(x, hidden)`.
#include "names.hpp"

using namespace fail_test;

using Out = cleave::abstract<float, mesh(batch / data, embed, hidden)>;
constexpr cleave::function f([](auto x, auto w) {
  return x + w; // here
});
constexpr auto plan = cleave::plan<Out(X, W)>(f);

int main() {}
