// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "appears twice in one tensor" dim_used_twice line<@here> op=stencil dim=batch
// fix: Each dim of the domain has one condition: `along(batch, wall), along(embed, wall)`.
#include "names.hpp"

#include <cleave/stencil/field.hpp>

using namespace fail_test;
namespace stencil = cleave::stencil;

constexpr cleave::function f([](auto x) {
  auto u = stencil::star<1>(x, along(batch, stencil::wall), along(batch, stencil::wall)); // here
  return u(0, 1);
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
