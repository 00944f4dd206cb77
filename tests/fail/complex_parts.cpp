// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "parts of a complex number" complex_parts line<@here> op=complex
// fix: Cast the parts: `complex(cast<float>(x), cast<float>(y))`. Two floats give `Kokkos::complex<float>`, two
// fix: doubles `Kokkos::complex<double>`.
#include "names.hpp"

using namespace fail_test;

using I = cleave::abstract<int, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return real(complex(x, x)); // here
});
constexpr auto plan = cleave::plan<I(I)>(f);

int main() {}
