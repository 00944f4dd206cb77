// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

#include <cleave/linalg/fft.hpp>

#include <complex>
#include <numbers>

// Recorded cases: Fourier transforms, against the sum that defines them.

namespace CLEAVE_SOURCE {

using namespace cases;

template <auto Layout>
using c64 = cleave::tensor_in<Kokkos::complex<float>, Layout>;

/// Of the whole tensor along one dim.
std::vector<double> transformed(const std::vector<double>& from, const cleave::shape& extents, int along) {
  std::int64_t inner = 1;
  for (int d = along + 1; d < extents.rank; ++d) inner *= extents[d];
  const std::int64_t n = extents[along];
  std::vector<double> to(from.size(), 0);
  for (std::int64_t flat = 0; flat < extents.elements(); ++flat) {
    const std::int64_t k = flat / inner % n, first = flat - k * inner;
    const double turn = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    std::complex<double> sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(2 * (first + j * inner));
      sum += std::complex<double>(from[at], from[at + 1]) * std::polar(1.0, turn * static_cast<double>(j));
    }
    to[static_cast<std::size_t>(2 * flat)] = sum.real();
    to[static_cast<std::size_t>(2 * flat + 1)] = sum.imag();
  }
  return to;
}
template <int First, int Last>
std::vector<std::vector<double>> by_sums(const std::vector<cleave::host_array>& arguments) {
  std::vector<double> data = arguments[0].data;
  for (int d = First; d <= Last; ++d) data = transformed(data, arguments[0].extents, d);
  return {data};
}

TEST_F(Cases, fft_along_one_dim) {
  static constexpr cases::dim<"a", 256> a;
  static constexpr cases::dim<"b", 1024> b;
  constexpr cleave::function along([](auto u) { return cleave::linalg::fft(u, b); });
  {
    using namespace on8;
    check<"fft/1d__x.___to__x._/m8", c64<mesh(a / x, b)>(c64<mesh(a / x, b)>)>(along, by_sums<1, 1>);
    check<"fft/1d___.x__to___.x/m8", c64<mesh(a, b / x)>(c64<mesh(a, b / x)>)>(along, by_sums<1, 1>);
  }
  using namespace on2x4;
  check<"fft/1d__x.y__to__x.y/m2x4", c64<mesh(a / x, b / y)>(c64<mesh(a / x, b / y)>)>(along, by_sums<1, 1>);
}
TEST_F(Cases, fft_along_three_dims) {
  static constexpr cases::dim<"a", 64> a;
  static constexpr cases::dim<"b", 64> b;
  static constexpr cases::dim<"c", 64> c;
  constexpr cleave::function along([](auto u) { return cleave::linalg::fft(u, a, b, c); });
  {
    using namespace on8;
    check<"fft/3d_slab__x._.___to____x._/m8", c64<mesh(a, b / x, c)>(c64<mesh(a / x, b, c)>)>(along, by_sums<0, 2>);
  }
  using namespace on2x4;
  check<"fft/3d_auto__x.y.___to____x.y/m2x4", c64<mesh(a, b / x, c / y)>(c64<mesh(a / x, b / y, c)>)>(along,
                                                                                                      by_sums<0, 2>);
}

} // namespace CLEAVE_SOURCE
