// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: not_floating "floating-point numbers" line<@here> op=softmax
// fix: Cast first: `softmax(cast<float>(scores), embed)`.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto i) {
  return softmax(i, embed); // here
});
constexpr auto plan = cleave::plan<I(I)>(f);

int main() {}
