// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this type cannot be the element of a tensor" not_an_element "not_an_element, short" cast_element.cpp:@here
// fix: Cast to one of the element types: `cast<std::int32_t>(x)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return cast<short>(x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
