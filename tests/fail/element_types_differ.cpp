// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the element types do not match" element_types_differ line<@here> op=mul
// fix: Only literals are converted implicitly. Write `x * cast<float>(i)`.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x, auto i) {
  return x * i; // here
});
constexpr auto plan = cleave::plan<X(X, I)>(f);

int main() {}
