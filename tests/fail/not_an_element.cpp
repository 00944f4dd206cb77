// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this type cannot be the element of a tensor" not_an_element "not_an_element, short" not_an_element.cpp:@here
// lines-clang: 36 the type is found wrong in the middle of the signature's templates
// fix: Use `bool`, `float`, `double`, an integer of 8, 32 or 64 bits, `bfloat16`, `half` or `Kokkos::complex`. Store
// fix: shorts as `std::int32_t`.
#include "names.hpp"

using namespace fail_test;

using Y = cleave::abstract<short, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Y(Y)>(f); // here

int main() {}
