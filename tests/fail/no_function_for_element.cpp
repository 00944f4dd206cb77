// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this operation is not defined for this element type" no_function_for_element line<@here> op=halved
// fix: Let the call operator take numbers of that type, for example as a template, or `cast` the operand.
#include "names.hpp"

#include <cleave/expr/operation.hpp>

using namespace fail_test;

struct halved {
  static constexpr cleave::elementwise_entry entry{"halved"};
  constexpr int operator()(int x) const { return x / 2; }
};
inline constexpr cleave::operation<halved> half_of;
constexpr cleave::function f([](auto x) {
  return half_of(x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
