// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "more than 53 bits" literal_too_long line<@here> op=mul
// fix: Give the function another argument, which may be a number: `f(x, 6364136223846793005u)`.
#include "names.hpp"

using namespace fail_test;

using U = cleave::abstract<std::uint64_t, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return x * 6364136223846793005u; // here
});
constexpr auto plan = cleave::plan<U(U)>(f);

int main() {}
