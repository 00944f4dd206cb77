// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a value that is not a real floating-point number" not_differentiable not_differentiable.cpp:@here op=value_and_grad
// fix: Differentiate with respect to floating-point arguments: `grad<1>(loss)` is the gradient with respect to the
// fix: second argument. Integers have no gradient, even if they are cast later.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

using Labels = cleave::abstract<int, mesh(batch / data)>;
constexpr cleave::function loss([](auto labels, auto x) { return sum(cast<float>(labels) * x); });
constexpr auto plan = cleave::plan<Labels(Labels, X)>(cleave::grad(loss)); // here
static_assert(plan.collectives() == 1);

int main() {}
