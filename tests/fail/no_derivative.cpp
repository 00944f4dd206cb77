// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this user-defined operation has no derivative" no_derivative line<@here> op=cumulative
// fix: Give an elementwise operation the formulas of its cotangents in its entry. Wrap a kernel on shards in
// fix: `custom_vjp(forward, backward)`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/operation.hpp>

using namespace fail_test;

struct cumulative {
  static constexpr std::string_view name = "cumulative";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const;
};
constexpr cleave::function loss([](auto x) {
  return sum(cleave::call<cumulative>(cleave::whole(embed), x * x)); // here
});
constexpr auto plan = cleave::plan<X(X)>(cleave::grad(loss));
static_assert(plan.collectives() == 0);

int main() {}
