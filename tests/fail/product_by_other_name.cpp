// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no function of this name" written_otherwise product_by_other_name.cpp:@here op=matmul
// fix: Name the dims that are contracted: `dot(x, w, embed)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto w) {
  return matmul(x, w); // here
});
constexpr auto plan = cleave::plan<H(X, W)>(f);

int main() {}
