// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: ternary_of_members.cpp:@here
// expect-gcc: "operands to '?:' have different types"
// expect-clang: "conditional expression is ambiguous"
// of: the compiler
// fix: Tensors with other dims or layouts have other types. Write `if constexpr`, or, if a value decides,
// fix: `select(along_x, g.dx, g.dy)`.
#include "names.hpp"

using namespace fail_test;

template <template <class, auto> class Tensor>
struct slopes {
  Tensor<float, mesh(batch / data, embed)> dx;
  Tensor<float, mesh(batch / model, embed)> dy;
};
constexpr cleave::function f([](auto g) {
  constexpr bool along_x = true;
  return along_x ? g.dx : g.dy; // here
});
constexpr auto plan = cleave::plan<X(slopes<cleave::abstract>)>(f);
static_assert(plan.collectives() == 0);

int main() {}
