// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "was never given a value" value_missing op=result value_missing.cpp:@here
// fix: Give every field of what the function returns a value, and start a sum with its first term or with `zeros_like(x)`.
#include "names.hpp"

using namespace fail_test;

template <template <class, auto> class Tensor>
struct both {
  Tensor<float, mesh(batch / data, embed)> first, second;
};
constexpr cleave::function f([](auto x) {
  both<cleave::traced> made;
  made.first = x + 1;
  return made;
});
constexpr auto plan = cleave::plan<both<cleave::abstract>(X)>(f); // here

int main() {}
