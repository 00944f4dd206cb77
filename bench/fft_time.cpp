// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Fourier transform of three dims against the same by hand with FFTW and MPI_Alltoall.
//
//   mpirun -n 2 fft_time RESULTS.jsonl [seconds for each measurement]
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/fft.hpp>

#include <fftw3.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <stdexcept>

namespace {

using number = Kokkos::complex<float>;

/// Slabs of x: transforms along y and z, an exchange to slabs of y, transforms along x; and back.
class by_hand_transform {
 public:
  by_hand_transform(MPI_Comm comm, long n, number* in, number* out) : comm_(comm), n_(n), out_(out) {
    int size = 1;
    MPI_Comm_size(comm, &size);
    ranks_ = size;
    mine_ = n / size;
    rows_ = mine_ * n;
    for (auto* v : {&planes_, &sent_, &turned_}) v->resize(static_cast<std::size_t>(mine_ * n * n));
    const fftwf_iodim64 yz[2] = {{n, n, n}, {n, 1, 1}}, slabs{mine_, n * n, n * n}, x{n, rows_, rows_},
                        rest{rows_, 1, 1};
    std::vector<number> kept(in, in + mine_ * n * n);
    inside_ = fftwf_plan_guru64_dft(2, yz, 1, &slabs, numbers(in), numbers(planes_.data()), FFTW_FORWARD, FFTW_MEASURE);
    across_ = fftwf_plan_guru64_dft(1, &x, 1, &rest, numbers(turned_.data()), numbers(turned_.data()), FFTW_FORWARD,
                                    FFTW_MEASURE);
    std::copy(kept.begin(), kept.end(), in);
  }
  ~by_hand_transform() {
    fftwf_destroy_plan(inside_);
    fftwf_destroy_plan(across_);
  }
  by_hand_transform(const by_hand_transform&) = delete;
  by_hand_transform& operator=(const by_hand_transform&) = delete;

  void turned() {
    fftwf_execute(inside_);
    each_block([&](number* block, number* plane) { copy(block, plane); }, sent_);
    exchange(sent_.data(), turned_.data());
    fftwf_execute(across_);
  }
  void run() {
    turned();
    exchange(turned_.data(), sent_.data());
    each_block([&](number* block, number* plane) { copy(plane, block); }, sent_, out_);
  }
  const number* turned_result() const { return turned_.data(); }

 private:
  static fftwf_complex* numbers(number* at) { return reinterpret_cast<fftwf_complex*>(at); }
  void copy(number* to, const number* from) {
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(rows_) * sizeof(number));
  }
  template <class F>
  void each_block(F f, std::vector<number>& blocks, number* planes = nullptr) {
    for (long r = 0; r < ranks_; ++r)
      for (long i = 0; i < mine_; ++i)
        f(blocks.data() + (r * mine_ + i) * rows_,
          (planes == nullptr ? planes_.data() : planes) + i * n_ * n_ + r * rows_);
  }
  void exchange(number* from, number* to) {
    const auto count = static_cast<int>(2 * mine_ * rows_);
    MPI_Alltoall(from, count, MPI_FLOAT, to, count, MPI_FLOAT, comm_);
  }

  MPI_Comm comm_;
  long n_, ranks_ = 1, mine_ = 0, rows_ = 0;
  number* out_;
  std::vector<number> planes_, sent_, turned_;
  fftwf_plan inside_, across_;
};

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"x"> dx;
inline constexpr cleave::dim<"y"> dy;
inline constexpr cleave::dim<"z"> dz;
using Slabs = cleave::tensor<number, mesh(dx / line, dy, dz)>;
using Turned = cleave::tensor<number, mesh(dx, dy / line, dz)>;
constexpr cleave::function spectrum =
    cleave::with(cleave::function([](auto u) { return cleave::linalg::fft(u, dx, dy, dz); }), cleave::expect<dx, 256>{},
                 cleave::expect<dy, 256>{}, cleave::expect<dz, 256>{}, cleave::expect<line, 2>{});

void expect_same(const number* ours, const number* theirs, long n) {
  double off = 0, size = 0;
  for (long i = 0; i < n; ++i) {
    off = std::max(off, static_cast<double>(Kokkos::abs(ours[i] - theirs[i])));
    size = std::max(size, static_cast<double>(Kokkos::abs(theirs[i])));
  }
  if (!(off <= 1e-4 * size)) throw std::runtime_error("the two programs differ in the transform");
}

void measure_all(const measure::task& with) {
  const long n = 256;
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  Slabs u(grid, {n, n, n}), v(grid, {n, n, n});
  Turned t(grid, {n, n, n});
  u.fill_by([](const auto& at) {
    const auto i = static_cast<float>((at[0] * 31 + at[1] * 17 + at[2] * 7) % 101);
    return number(std::sin(i), std::cos(3 * i));
  });
  std::vector<number> out(static_cast<std::size_t>(u.local_size()));
  by_hand_transform hand(with.comm, n, u.data(), out.data());
  const std::string where = " of 256^3 on " + std::to_string(with.ranks) + (with.ranks == 1 ? " rank" : " ranks");
  // As everybody counts them: 5 n log2 n for n numbers.
  const double numbers = static_cast<double>(n * n) * static_cast<double>(n);
  const measure::work w = measure::work::flops(5 * numbers * std::log2(numbers));
  v = spectrum(u);
  hand.run();
  expect_same(v.data(), out.data(), static_cast<long>(u.local_size()));
  with.out.factor("Fourier transform" + where,
                  measure::compare(with.comm, 1, with.seconds, [&] { v = spectrum(u); }, [&] { hand.run(); }), 1.1, w);
  t = spectrum(u);
  hand.turned();
  expect_same(t.data(), hand.turned_result(), static_cast<long>(u.local_size()));
  with.out.factor(
      "Fourier transform, left turned," + where,
      measure::compare(with.comm, 1, with.seconds, [&] { t = spectrum(u); }, [&] { hand.turned(); }), 1.1, w);
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 3, measure_all); }
