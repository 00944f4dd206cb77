// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a stencil or a kernel reads a neighbour outside of the neighbourhood of its field" neighbour_too_far line<@here> op=smooth expected<2> got<1>
// fix: Make the field as wide as its farthest neighbour, `star<2>(...)`, or a `box` where it lies on a diagonal.
#include "names.hpp"

#include <cleave/stencil/field.hpp>

using namespace fail_test;
namespace stencil = cleave::stencil;

struct smooth {
  static constexpr std::string_view name = "smooth";
  static constexpr int halo = 2;
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
};
constexpr cleave::function f([](auto x) {
  return cleave::call<smooth>(cleave::whole(), stencil::star<1>(x, along(batch, stencil::periodic))); // here
});
constexpr auto plan = cleave::plan<H(H)>(f);

int main() {}
