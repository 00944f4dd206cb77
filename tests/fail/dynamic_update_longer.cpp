// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this dim has fewer elements than are taken from it or written to it" dim_too_short line<@here> op=dynamic_update dim=position expected<8> got<6>
// fix: Give the dim room for the update, or update its first elements with a `slice` of it.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::dim<"position", 6> position;
constexpr cleave::dim<"written", 8> written;
using A = cleave::abstract<float, mesh(batch / data, position)>;
using U = cleave::abstract<float, mesh(batch / data, written)>;
constexpr cleave::function f([](auto x, auto u) {
  return dynamic_update(x, position, u, written, 0); // here
});
constexpr auto plan = cleave::plan<A(A, U)>(f);

int main() {}
