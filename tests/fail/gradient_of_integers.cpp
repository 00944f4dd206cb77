// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: not_differentiable "real floating-point number" gradient_of_integers.cpp:@here op=value_and_grad
// fix: Take the gradient with respect to floating-point arguments: `grad<1>(loss)`.
#include "names.hpp"

#include <cleave/expr/gradient.hpp>

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data, embed)>;
constexpr cleave::function loss([](auto i, auto x) { return sum(cast<float>(i) * x); });
constexpr auto plan = cleave::plan<I(I, X)>(cleave::grad(loss)); // here

int main() {}
