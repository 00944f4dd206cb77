// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "each an argument of its own" results_in_tuple results_in_tie.cpp:@here
// needs: runtime
// fix: Write each tensor as an argument: `f(x, y).into(value, dx, dy)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Field = cleave::tensor<float, mesh(batch / data, embed)>;
using Number = cleave::tensor<float, mesh()>;
constexpr auto slopes = cleave::value_and_grad<0, 1>(cleave::function([](auto x, auto y) { return sum(x * y); }));
void results(const Field& x, const Field& y, Number& value, Field& dx, Field& dy) {
  slopes(x, y).into(value, std::tie(dx, dy)); // here
}

int main() {}
