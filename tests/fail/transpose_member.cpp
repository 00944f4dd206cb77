// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "operations are functions, not members" operation_as_member op=transpose transpose_member.cpp:@here
// fix: Leave it out: dims are found by their names, and `dot(x, w, embed)` sums over `embed` wherever it stands.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x.transpose(); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
