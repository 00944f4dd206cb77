// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Fourier transform of three dims against the same by hand with FFTW and MPI_Alltoall, and beside FFTW's own
// transforms of MPI programs where they are installed.
//
//   mpirun -n 2 fft_time RESULTS.jsonl [seconds for each measurement]
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/fft.hpp>

#if defined(CLEAVE_FFTW_MPI)
#include <fftw3-mpi.h>
#else
#include <fftw3.h>
#endif

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

#if defined(CLEAVE_FFTW_MPI)
/// The same by FFTW. Turned, its result is [y, x, z] with y sharded.
class fftw_transform {
 public:
  fftw_transform(MPI_Comm comm, long n, const number* in, bool turned) {
    fftwf_mpi_init();
    fftwf_set_timelimit(30);
    ptrdiff_t mine = 0, first = 0, columns = 0, first_column = 0;
    const ptrdiff_t all = fftwf_mpi_local_size_3d_transposed(n, n, n, comm, &mine, &first, &columns, &first_column);
    in_ = fftwf_alloc_complex(static_cast<std::size_t>(all));
    out_ = fftwf_alloc_complex(static_cast<std::size_t>(all));
    plan_ = fftwf_mpi_plan_dft_3d(n, n, n, in_, out_, comm, FFTW_FORWARD,
                                  FFTW_MEASURE | (turned ? FFTW_MPI_TRANSPOSED_OUT : 0u));
    if (plan_ == nullptr) throw std::runtime_error("FFTW has no plan for several ranks");
    std::memcpy(static_cast<void*>(in_), in, static_cast<std::size_t>(mine * n * n) * sizeof(number));
  }
  ~fftw_transform() {
    fftwf_destroy_plan(plan_);
    fftwf_free(in_);
    fftwf_free(out_);
  }
  fftw_transform(const fftw_transform&) = delete;
  fftw_transform& operator=(const fftw_transform&) = delete;
  void run() { fftwf_execute(plan_); }
  const number* result() const { return reinterpret_cast<const number*>(out_); }

 private:
  fftwf_complex *in_, *out_;
  fftwf_plan plan_;
};
#endif

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
      "Fourier transform, transposed output," + where,
      measure::compare(with.comm, 1, with.seconds, [&] { t = spectrum(u); }, [&] { hand.turned(); }), 1.1, w);
}

#if defined(CLEAVE_FFTW_MPI)
void measure_beside_fftw(const measure::task& with) {
  const long n = 256;
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  Slabs u(grid, {n, n, n}), v(grid, {n, n, n});
  Turned t(grid, {n, n, n});
  u.fill_by([](const auto& at) {
    const auto i = static_cast<float>((at[0] * 31 + at[1] * 17 + at[2] * 7) % 101);
    return number(std::sin(i), std::cos(3 * i));
  });
  const std::string where = " of 256^3 on " + std::to_string(with.ranks) + (with.ranks == 1 ? " rank" : " ranks");
  {
    fftw_transform theirs(with.comm, n, u.data(), false);
    v = spectrum(u);
    theirs.run();
    expect_same(v.data(), theirs.result(), static_cast<long>(v.local_size()));
    with.out.factor(
        "Fourier transform against FFTW-MPI" + where,
        measure::compare(with.comm, 1, with.seconds, [&] { v = spectrum(u); }, [&] { theirs.run(); }), 0.7, {}, "FFTW");
  }
  fftw_transform theirs(with.comm, n, u.data(), true);
  t = spectrum(u);
  theirs.run();
  std::vector<number> turned(static_cast<std::size_t>(t.local_size()));
  const long columns = static_cast<long>(t.local_extents()[1]);
  for (long y = 0; y < columns; ++y)
    for (long x = 0; x < n; ++x)
      std::memcpy(static_cast<void*>(turned.data() + (x * columns + y) * n), theirs.result() + (y * n + x) * n,
                  static_cast<std::size_t>(n) * sizeof(number));
  expect_same(t.data(), turned.data(), static_cast<long>(t.local_size()));
  with.out.factor(
      "Fourier transform against FFTW-MPI, transposed output," + where,
      measure::compare(with.comm, 1, with.seconds, [&] { t = spectrum(u); }, [&] { theirs.run(); }), 0.7, {}, "FFTW");
}
#endif

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 3, [](const measure::task& t) {
    measure_all(t);
#if defined(CLEAVE_FFTW_MPI)
    if (t.ranks > 1) measure_beside_fftw(t);
#endif
  });
}
