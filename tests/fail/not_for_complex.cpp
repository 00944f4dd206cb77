// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "complex numbers have no order" not_for_complex line<@here> op=maximum
// fix: Compare real numbers: `maximum(abs(z), abs(w))`, or `real(z)` and `imag(z)` separately. To convert a complex
// fix: number to a real one, write `real(z)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  const auto z = complex(x, 2 * x);
  return real(maximum(z, conj(z))); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
