// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the element types do not match" element_types_differ line<@here> op=dot
// fix: Cast one of the operands: `dot(x, cast<float>(w), embed)`. Better, declare both tensors with one element type.
#include "names.hpp"

using namespace fail_test;

using Wide = cleave::abstract<double, mesh(embed, hidden / model)>;
constexpr cleave::function f([](auto x, auto w) {
  return dot(x, w, embed); // here
});
constexpr auto plan = cleave::plan<H(X, Wide)>(f);

int main() {}
