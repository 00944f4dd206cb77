// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "called with the wrong number of operands" operand_count line<@here> op=scaled expected<2> got<4>
// fix: Call the operation with as many operands as its call operator has: one, two or three.
#include "names.hpp"

#include <cleave/expr/operation.hpp>

using namespace fail_test;

struct scaled {
  static constexpr cleave::elementwise_entry entry{"scaled", {}};
  template <std::floating_point T>
  constexpr T operator()(T x, T y) const {
    return x * y;
  }
};
inline constexpr cleave::operation<scaled> scale;
constexpr cleave::function f([](auto x) {
  return scale(x, x, 2.0f, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
