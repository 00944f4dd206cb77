// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim has fewer elements than are taken from it or written to it" dim_too_short line<@here> op=top_k dim=seen expected<8> got<6>
// fix: Take at most as many elements as the dim has.
#include "names.hpp"

#include <cleave/expr/sort.hpp>

using namespace fail_test;

constexpr cleave::dim<"seen", 6> seen;
constexpr cleave::dim<"best", 8> best;
using A = cleave::abstract<float, mesh(batch / data, seen)>;
using Y = cleave::abstract<float, mesh(best, batch / data)>;
constexpr cleave::function f([](auto x) {
  return top_k(x, seen, best).first; // here
});
constexpr auto plan = cleave::plan<Y(A)>(f);

int main() {}
