// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a kernel that works in place gives its first operand back" in_place_differs line<@here> op=smooth
// fix: Leave out `result<...>` in `call`, or give `local` the layout to which the first operand is resharded.
#include "names.hpp"

#include <cleave/expr/operation.hpp>

using namespace fail_test;

struct smooth {
  static constexpr std::string_view name = "smooth";
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
};
constexpr cleave::function f([](auto x) {
  return cleave::local<smooth>(cleave::result<float>(mesh(batch, hidden / model)), // here
                               reshard(x, mesh(batch / data, hidden / model)));
});
constexpr auto plan = cleave::plan<H(H)>(f);

int main() {}
