// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a size for each dim and axis" size_not_expected size_not_expected.cpp:@here dim=hidden
// fix: Add `cleave::expect<hidden, 4096>{}` with the size that your calls have, or leave out `all_sizes_expected`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) { return dot(x, w, embed); });
constexpr auto plan = cleave::plan<H(X, W)>(f, cleave::all_sizes_expected{}, cleave::expect<data, 2>{}, // here
                                            cleave::expect<model, 4>{}, cleave::expect<batch, 64>{},
                                            cleave::expect<embed, 16>{});
static_assert(plan.collectives() == 0);

int main() {}
