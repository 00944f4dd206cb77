// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this operation is not defined for this element type" no_function_for_element line<@here> op=cholesky
// fix: Factor numbers of type float or double: `cholesky(cast<float>(x), batch, embed)`.
#include "names.hpp"

#include <cleave/linalg/recorded.hpp>

using namespace fail_test;

using Whole = cleave::abstract<int, mesh(batch, embed)>;
constexpr cleave::function f([](auto x) {
  return cleave::linalg::cholesky(x, batch, embed); // here
});
constexpr auto plan = cleave::plan<Whole(Whole)>(f);
static_assert(plan.collectives() == 0);

int main() {}
