// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a kernel on shards reads neighbours along at most three dims" halo_of_kernel line<@here> op=smooth dim=hidden
// fix: Give `along(dim, fixed(0))`, and set the elements beyond the face in the kernel, where `at_low_face(dim)` or `at_high_face(dim)` says that it is one.
#include "names.hpp"

#include <cleave/stencil/field.hpp>

using namespace fail_test;
namespace stencil = cleave::stencil;

struct smooth {
  static constexpr std::string_view name = "smooth";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
};
constexpr cleave::function f([](auto x) {
  return cleave::call<smooth>(cleave::whole(), stencil::star<1>(x, along(batch, stencil::periodic), // here
                                                                along(hidden, stencil::odd_wall)));
});
constexpr auto plan = cleave::plan<H(H)>(f);

int main() {}
