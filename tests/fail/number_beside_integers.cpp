// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: literal_does_not_fit "holds integers or bools, which cannot represent it" line<@here> op=mul
// fix: Cast the tensor, `cast<float>(i) * rate`, or pass an integer.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto i, auto rate) {
  return i * rate; // here
});
constexpr auto plan = cleave::plan<I(I, float)>(f);

int main() {}
