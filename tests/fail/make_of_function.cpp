// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "use into()" not_for_make make_of_function.cpp:@here
// needs: runtime
// fix: The planner does not choose the layout of a result. Declare it: `Field y(f(x))`, or `f(x).into(y)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Field = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return 2 * x; });
void call(const Field& x) {
  [[maybe_unused]] const auto y = f(x).make(); // here
}

int main() {}
