// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim appears twice in one tensor" dim_used_twice line<@here> op=windows dim=batch
// fix: A call has one window along each dim. For windows of windows write two calls, `windows(windows(x, first),
// fix: second)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

inline constexpr cleave::dim<"near", 3> near;
inline constexpr cleave::dim<"far", 3> far;
constexpr cleave::function f([](auto x) {
  const cleave::window first{batch, batch, near, 1, 1, 1, 1}, second{batch, batch, far, 1, 4, 4, 4};
  return sum(windows(x, first, second), near, far); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
