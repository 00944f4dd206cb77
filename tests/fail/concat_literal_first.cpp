// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the operands do not broadcast" dims_do_not_broadcast line<@here> op=concat dim=batch
// fix: A piece is a value with the dim: `piece(zeros_like(x), batch)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

using Y = cleave::abstract<float, mesh(hidden, embed)>;
constexpr cleave::function f([](auto x) {
  return cleave::concat(hidden, cleave::piece(0.0f, batch), cleave::piece(x, batch)); // here
});
constexpr auto plan = cleave::plan<Y(X)>(f);

int main() {}
