// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the wrong number of operands" operand_count line<@here> op=distance expected<2> got<1>
// fix: Pass as many operands as the call operator of the operation takes.
#include "names.hpp"

#include <cleave/expr/operation.hpp>

using namespace fail_test;

struct distance_of {
  static constexpr cleave::elementwise_entry entry{"distance"};
  constexpr float operator()(float a, float b) const { return a > b ? a - b : b - a; }
};
inline constexpr cleave::operation<distance_of> apart;
constexpr cleave::function f([](auto x) { return apart(x); }); // here
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
