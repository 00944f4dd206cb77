// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a collective that the contract forbids" contract_broken line<@here> op=dot collective=all_gather
// expect: "repair=cleave::abstract<float, mesh(batch / data, hidden / model)>"
// repair: cleave::abstract<float, mesh(batch / data, hidden)>
// fix: Ask for the result as the operation leaves it, `mesh(batch / data, hidden / model)`, or take the kind out of
// fix: the contract.
#include "names.hpp"

using namespace fail_test;

using Y = cleave::abstract<float, mesh(batch / data, hidden)>;
constexpr cleave::function f([](auto x, auto w) {
  return dot(x, w, embed); // here
});
constexpr auto plan = cleave::plan<Y(X, W)>(f, cleave::without<cleave::kind::all_gather>{});
static_assert(plan.count(cleave::kind::all_gather) == 0);

int main() {}
