// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: literal_does_not_fit "holds integers or bools, which cannot represent it" line<@here> op=mul
// fix: Cast first, `cast<float>(i) * 0.5f`, or stay with integers: `i / 2`.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto i) {
  return i * 0.5f; // here
});
constexpr auto plan = cleave::plan<I(I)>(f);

int main() {}
