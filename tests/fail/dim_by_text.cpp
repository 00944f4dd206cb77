// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments dim_by_text.cpp:@here op=mean
// fix: A dim is an object: `inline constexpr cleave::dim<"embed"> embed;`, and then `mean(x, embed)`.
#include "names.hpp"

using namespace fail_test;

using R = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return mean(x, "embed"); // here
});
constexpr auto plan = cleave::plan<R(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
