// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a collective that the contract forbids" contract_broken line<@here> op=dot collective=all_reduce expected<1000> got<25165824>
// expect: repair=at_most<25165824>{}
// repair: at_most<1000>{}
// fix: The contract counts bytes for the planned sizes. Give your sizes with `cleave::expect<batch, 64>{}` beside the
// fix: contract, raise the limit, or ask for a layout that moves less, here `mesh(batch / data, embed / model)`.
#include "names.hpp"

using namespace fail_test;

using D = cleave::abstract<float, mesh(hidden / model, embed)>;
constexpr cleave::function f([](auto h, auto d) {
  return dot(h, d, hidden); // here
});
constexpr auto plan = cleave::plan<X(H, D)>(f, cleave::at_most<1000>{});

int main() {}
