// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "scan takes the dim first" scan_without_dim scan_without_dim.cpp:@here
// fix: Write `scan(batch, start, x, body)`.
#include "names.hpp"

#include <cleave/expr/loops.hpp>

using namespace fail_test;

using S = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto start, auto x) {
  return cleave::scan([](auto h, auto v) { return std::pair(h + v, h); }, start, x); // here
});
constexpr auto plan = cleave::plan<S(S, X)>(f);

int main() {}
