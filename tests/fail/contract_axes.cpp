// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a collective that the contract forbids" contract_broken line<@here> op=dot collective=all_reduce axis=model
// expect: repair=only_over<model>{}
// repair: only_over<data>{}
// fix: Allow the axis, `only_over<data, model>`. Or take the result as the operation leaves it, `mesh(batch / data,
// fix: embed, cleave::unreduced(model))`, and reduce it outside of the contract.
#include "names.hpp"

using namespace fail_test;

using D = cleave::abstract<float, mesh(hidden / model, embed)>;
constexpr cleave::function f([](auto h, auto d) {
  return dot(h, d, hidden); // here
});
constexpr auto plan = cleave::plan<X(H, D)>(f, cleave::only_over<data>{});

int main() {}
