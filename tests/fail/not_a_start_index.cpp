// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a dynamic start index must be a rank-0 integer" not_a_start_index line<@here> op=dynamic_slice
// fix: Pass a rank-0 tensor or a number of an integer type: `cast<int>(start)`.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

inline constexpr cleave::dim<"part", 4> part;
using Y = cleave::abstract<float, mesh(batch / data, part)>;
using Start = cleave::abstract<float, mesh()>;
constexpr cleave::function f([](auto x, auto start) {
  return dynamic_slice(x, embed, part, start); // here
});
constexpr auto plan = cleave::plan<Y(X, Start)>(f);

int main() {}
