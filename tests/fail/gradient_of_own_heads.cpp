// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have different dims" assignment_to_other_dims gradient_of_own_heads.cpp:@here dim=hidden
// fix: The gradient of a tensor has its dims. Declare it as `mesh(embed)`: it is summed over all of `hidden`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

using Key = cleave::abstract<float, mesh(embed)>;
using OwnKeys = cleave::abstract<float, mesh(embed, hidden / model)>;
constexpr cleave::function loss([](auto key, auto queries) { return sum(sin(queries * key)); });
constexpr auto plan = cleave::plan<OwnKeys(Key, W)>(cleave::grad(loss)); // here
static_assert(plan.collectives() == 0);

int main() {}
