// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How fast a BLAS is: prints the GFLOP/s of sgemm on square matrices of order 1024, on the threads that the environment
// allows, and of a smaller product by plain loops, both as whole numbers. A reference BLAS is no faster than those when
// they are compiled for this processor.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <vector>

extern "C" void CLEAVE_SGEMM(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                             const int*, const float*, const int*, const float*, float*, const int*);

namespace {

// The least time of some runs that take about `budget` seconds together; of the processor, since others may use the
// machine.
template <class Run>
double seconds(double budget, Run run) {
  double best = 1e30, spent = 0;
  for (int i = 0; i < 1 || (i < 20 && spent < budget); ++i) {
    const std::clock_t start = std::clock();
    run();
    const double took = static_cast<double>(std::clock() - start + 1) / CLOCKS_PER_SEC;
    best = std::min(best, took);
    spent += took;
  }
  return best;
}

// c = a b, stored by columns.
void plain(int n, const float* a, const float* b, float* c) {
  const std::size_t m = static_cast<std::size_t>(n);
  for (std::size_t j = 0; j < m; ++j) {
    std::fill(c + j * m, c + (j + 1) * m, 0.0f);
    for (std::size_t k = 0; k < m; ++k)
      for (std::size_t i = 0; i < m; ++i) c[j * m + i] += a[k * m + i] * b[j * m + k];
  }
}

} // namespace

int main() {
  const int n = 1024, few = 256;
  const std::size_t size = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  std::vector<float> a(size), b(size), c(size), expected(size);
  for (std::size_t i = 0; i < size; ++i) {
    a[i] = static_cast<float>(i * 7 % 31) / 32 - 0.5f;
    b[i] = static_cast<float>(i * 5 % 29) / 32 - 0.5f;
  }
  const float one = 1, zero = 0;
  const auto product = [&](int m) {
    CLEAVE_SGEMM("N", "N", &m, &m, &m, &one, a.data(), &m, b.data(), &m, &zero, c.data(), &m);
  };
  const auto gflops = [](double m, double s) { return 2 * m * m * m / s * 1e-9; };
  // One that computes something else has other names or other integers than we believe.
  product(few);
  plain(few, a.data(), b.data(), expected.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(few) * static_cast<std::size_t>(few); ++i)
    if (!(std::fabs(c[i] - expected[i]) < 1e-2f)) return 2;
  const double by_loops = gflops(few, seconds(0.1, [&] { plain(few, a.data(), b.data(), expected.data()); }));
  const double by_blas = gflops(n, seconds(0.3, [&] { product(n); }));
  std::printf("%.0f %.0f\n", std::ceil(by_blas), std::ceil(by_loops));
}
