// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "must take one, two or three numbers of one type and return that type" not_elementwise "not_elementwise, joined" not_elementwise.cpp:@here
// fix: Return the type of the operands, for example with a template. An operation that needs whole rows or other dims
// fix: is an operation on shards: `call<Op>(...)`.
#include "names.hpp"

#include <cleave/expr/operation.hpp>

using namespace fail_test;

struct joined {
  static constexpr cleave::elementwise_entry entry{"joined"};
  constexpr bool operator()(float a, float b) const { return a < b; }
};
inline constexpr cleave::operation<joined> join; // here
constexpr cleave::function f([](auto x) { return join(x, x); });
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
