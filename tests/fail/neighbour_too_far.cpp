// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a stencil or a kernel reads a neighbour outside of the neighbourhood of its field" neighbour_too_far line<@here> dim=hidden
// fix: Make the field as wide as its farthest neighbour, `star<2>(...)`, or a `box` where it lies on a diagonal.
#include "names.hpp"

#include <cleave/stencil/field.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  const auto u = cleave::stencil::star<1>(x, along(batch, cleave::stencil::periodic),
                                          along(hidden, cleave::stencil::zero_gradient));
  return u(-1, 0) + u(0, 2); // here
});
constexpr auto plan = cleave::plan<H(H)>(f);

int main() {}
