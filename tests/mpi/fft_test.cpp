// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/fft.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

// Fourier transforms on real grids against the sum that defines them; what their plans move.

namespace CLEAVE_SOURCE {

using cleave::kind;
using cleave::linalg::fft;
using cleave::linalg::ifft;
using cleave::linalg::irfft;
using cleave::linalg::rfft;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"x"> x_dim;
inline constexpr cleave::dim<"y"> y_dim;
inline constexpr cleave::dim<"z"> z_dim;
inline constexpr cleave::dim<"frequency"> frequency;

using c64 = Kokkos::complex<float>;
using c128 = Kokkos::complex<double>;
using cleave::tensor;

constexpr cleave::function along_y([](auto a) { return fft(a, y_dim); });
constexpr cleave::function back_along_y([](auto a) { return ifft(a, y_dim); });
constexpr cleave::function two([](auto a) { return fft(a, x_dim, y_dim); });
constexpr cleave::function three([](auto a) { return fft(a, x_dim, y_dim, z_dim); });

using Rows = tensor<c64, mesh(x_dim / data, y_dim)>;
using Columns = tensor<c64, mesh(x_dim, y_dim / data)>;
using Slab = tensor<c64, mesh(x_dim / data, y_dim, z_dim)>;
using TurnedSlab = tensor<c64, mesh(x_dim, y_dim / data, z_dim)>;
using Pencil = tensor<c64, mesh(x_dim / data, y_dim / model, z_dim)>;
using TurnedPencil = tensor<c64, mesh(x_dim, y_dim / data, z_dim / model)>;

// A sharded batch stays; a sharded dim is gathered and sharded again, or stays in the other layout.
static_assert(cleave::plan<Rows(Rows)>(along_y, cleave::expect<model, 1>{}).collectives() == 0);
constexpr auto there_and_back = cleave::plan<Columns(Columns)>(along_y, cleave::expect<model, 1>{});
static_assert(there_and_back.count(kind::all_to_all) == 2 && there_and_back.collectives() == 2);
constexpr auto turned = cleave::plan<Rows(Columns)>(along_y, cleave::expect<model, 1>{});
static_assert(turned.count(kind::all_to_all) == 1 && turned.collectives() == 1);
// Two dims of a matrix: one all-to-all, and one more to come back.
static_assert(cleave::plan<Columns(Rows)>(two, cleave::expect<model, 1>{}).collectives() == 1);
static_assert(cleave::plan<Rows(Rows)>(two, cleave::expect<model, 1>{}).collectives() == 2);
// Slabs: one, and one more to come back. Pencils: two; to come back two as well, each over both axes, with slabs of z
// between them, and not the four of two times two.
constexpr auto slab = cleave::plan<TurnedSlab(Slab)>(three, cleave::expect<model, 1>{});
static_assert(slab.count(kind::all_to_all) == 1 && slab.collectives() == 1);
constexpr auto slab_back = cleave::plan<Slab(Slab)>(three, cleave::expect<model, 1>{});
static_assert(slab_back.count(kind::all_to_all) == 2 && slab_back.collectives() == 2);
constexpr auto pencil = cleave::plan<TurnedPencil(Pencil)>(three);
static_assert(pencil.count(kind::all_to_all) == 2 && pencil.collectives() == 2);
constexpr auto pencil_back = cleave::plan<Pencil(Pencil)>(three);
static_assert(pencil_back.count(kind::all_to_all) == 2 && pencil_back.collectives() == 2);

// With the sizes of a run too: gathering everything and transforming it on every device would move as many bytes, and
// repeat the work.
constexpr auto sized_back = cleave::plan<Slab(Slab)>(three, cleave::expect<model, 1>{}, cleave::expect<data, 2>{},
                                                     cleave::expect<x_dim, 256>{}, cleave::expect<y_dim, 256>{},
                                                     cleave::expect<z_dim, 256>{});
static_assert(sized_back.count(kind::all_to_all) == 2 && sized_back.collectives() == 2);
// Between pencils the sizes decide: both axes go to one dim, which makes slabs, if there are at least as many planes as
// devices; else each axis goes to a dim of its own, since devices without a plane would have nothing to do.
template <std::int64_t Extent, std::int64_t Size>
constexpr auto by_size = cleave::plan<Pencil(Pencil)>(three, cleave::expect<x_dim, Extent>{},
                                                      cleave::expect<y_dim, Extent>{}, cleave::expect<z_dim, Extent>{},
                                                      cleave::expect<data, Size>{}, cleave::expect<model, Size>{});
static_assert(by_size<256, 4>.count(kind::all_to_all) == 2 && by_size<256, 4>.collectives() == 2);
static_assert(by_size<256, 32>.count(kind::all_to_all) == 2 && by_size<256, 32>.collectives() == 3);
static_assert(by_size<256, 32>.count(kind::collective_permute) == 1);
// Dims that come unsharded are transformed by one kernel, so that memory is passed over once. Of a whole array one dim
// stays alone, over which the other kernel can be sharded.
template <class Plan>
constexpr int kernels(const Plan& p) {
  int n = 0;
  for (const cleave::step& s : p.view().steps) n += s.kind == cleave::step_kind::call ? 1 : 0;
  return n;
}
using Cube = tensor<c64, mesh(x_dim, y_dim, z_dim)>;
static_assert(kernels(slab) == 2 && kernels(pencil) == 3 && kernels(cleave::plan<Cube(Cube)>(three)) == 2);

std::vector<cleave::grid> grids() { return support::grids(mesh); }

using number = std::complex<double>;
number wave(std::int64_t i) {
  const auto t = static_cast<double>(i);
  return {std::sin(0.3 + 0.7 * t), std::cos(1.1 + 1.9 * t)};
}
/// The sum that defines the transform, along one dim of a LayoutRight array.
std::vector<number> transformed(const std::vector<number>& a, const std::vector<std::int64_t>& extents,
                                std::size_t along, double sign) {
  std::int64_t inner = 1, outer = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) (d < along ? outer : inner) *= d == along ? 1 : extents[d];
  const std::int64_t n = extents[along];
  std::vector<number> roots, b(a.size());
  for (std::int64_t k = 0; k < n; ++k)
    roots.push_back(std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t s = 0; s < inner; ++s)
      for (std::int64_t k = 0; k < n; ++k) {
        number total = 0;
        for (std::int64_t j = 0; j < n; ++j)
          total += a[static_cast<std::size_t>((o * n + j) * inner + s)] * roots[static_cast<std::size_t>(j * k % n)];
        b[static_cast<std::size_t>((o * n + k) * inner + s)] = sign < 0 ? total : total / static_cast<double>(n);
      }
  return b;
}

std::vector<number> waves(const std::vector<std::int64_t>& extents) {
  std::int64_t size = 1;
  for (std::int64_t e : extents) size *= e;
  std::vector<number> all;
  for (std::int64_t i = 0; i < size; ++i) all.push_back(wave(i));
  return all;
}
template <class Tensor>
std::vector<number> fill(const Tensor& t, const std::vector<std::int64_t>& extents) {
  using T = typename Tensor::element_type;
  t.fill_by([&](const auto& at) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < extents.size(); ++d) flat = flat * extents[d] + at[d];
    using R = typename T::value_type;
    return T(static_cast<R>(wave(flat).real()), static_cast<R>(wave(flat).imag()));
  });
  return waves(extents);
}
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<number>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(number(static_cast<double>(got[i].real()), static_cast<double>(got[i].imag())) -
                                     want[i]));
  EXPECT_LT(worst, tolerance);
}

template <class In, class Out>
void check_one(double tolerance) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, n] :
         {std::pair<std::int64_t, std::int64_t>{6, 8}, {5, 7}, {1, 12}, {3, 1}, {0, 4}, {4, 0}, {9, 30}}) {
      In a(g, {rows, n});
      Out y(g, {rows, n}), back(g, {rows, n});
      const std::vector<number> before = fill(a, {rows, n});
      y = along_y(a);
      expect_near(y.to_global(), transformed(before, {rows, n}, 1, -1), tolerance);
      back = back_along_y(y);
      expect_near(back.to_global(), before, tolerance);
      back = back_along_y(a);
      expect_near(back.to_global(), transformed(before, {rows, n}, 1, 1), tolerance);
    }
}
// Trap 2 of traps_test.cpp: across sharded dims and along them.
TEST(fft, of_rows_that_are_divided) {
  check_one<tensor<c128, mesh(x_dim / data / model, y_dim)>, tensor<c128, mesh(x_dim / data, y_dim)>>(1e-12);
}
TEST(fft, along_a_divided_dim) {
  check_one<tensor<c128, mesh(x_dim, y_dim / data / model)>, tensor<c128, mesh(x_dim, y_dim / data / model)>>(1e-12);
}
TEST(fft, along_a_divided_dim_and_turned) {
  check_one<tensor<c128, mesh(x_dim / model, y_dim / data)>, tensor<c128, mesh(x_dim / data, y_dim / model)>>(1e-12);
}
TEST(fft, in_float) {
  check_one<tensor<c64, mesh(x_dim / data, y_dim / model)>, tensor<c64, mesh(x_dim, y_dim)>>(1e-4);
}

TEST(fft, of_one_dim) {
  for (const cleave::grid& g : grids())
    for (std::int64_t n : {0, 1, 3, 16, 21}) {
      tensor<c128, mesh(x_dim / data / model)> a(g, {n}), y(g, {n});
      const std::vector<number> before = fill(a, {n});
      y = fft(a, x_dim);
      expect_near(y.to_global(), transformed(before, {n}, 0, -1), 1e-12);
      y = ifft(fft(2 * a, x_dim), x_dim) - a;
      expect_near(y.to_global(), before, 1e-13);
    }
}

template <class In, class Out>
void check_three() {
  for (const cleave::grid& g : grids())
    for (const auto& e : {std::vector<std::int64_t>{4, 6, 5}, {3, 1, 2}, {8, 8, 8}, {2, 0, 3}}) {
      In a(g, {e[0], e[1], e[2]});
      Out y(g, {e[0], e[1], e[2]}), middle(g, {e[0], e[1], e[2]});
      const std::vector<number> before = fill(a, e);
      y = three(a);
      expect_near(y.to_global(), transformed(transformed(transformed(before, e, 0, -1), e, 1, -1), e, 2, -1), 1e-11);
      y = ifft(y, y_dim, z_dim, x_dim);
      expect_near(y.to_global(), before, 1e-13);
      // Along a dim that is neither the first nor the last in memory, and along the first.
      middle = fft(a, y_dim);
      expect_near(middle.to_global(), transformed(before, e, 1, -1), 1e-12);
      middle = fft(a, x_dim);
      expect_near(middle.to_global(), transformed(before, e, 0, -1), 1e-12);
    }
}
TEST(fft, of_three_dims_in_slabs) {
  check_three<tensor<c128, mesh(x_dim / data / model, y_dim, z_dim)>,
              tensor<c128, mesh(x_dim, y_dim / data / model, z_dim)>>();
}
TEST(fft, of_three_dims_in_pencils) {
  check_three<tensor<c128, mesh(x_dim / data, y_dim / model, z_dim)>,
              tensor<c128, mesh(x_dim, y_dim / data, z_dim / model)>>();
}
TEST(fft, of_three_dims_in_pencils_that_stay) {
  check_three<tensor<c128, mesh(x_dim / data, y_dim / model, z_dim)>,
              tensor<c128, mesh(x_dim / data, y_dim / model, z_dim)>>();
}
TEST(fft, of_three_dims_the_last_divided) {
  check_three<tensor<c128, mesh(x_dim, y_dim, z_dim / data)>, tensor<c128, mesh(x_dim / model, y_dim, z_dim / data)>>();
}

// Blocks of transforms that are not whole, several of them in a strip, lengths beyond the first cache, and tiles.
TEST(fft, of_long_and_narrow_arrays) {
  for (const auto& e : {std::vector<std::int64_t>{6, 31, 37}, {3, 700, 2}, {2, 1, 133}, {129, 5, 3}, {4, 17, 600}}) {
    const std::vector<number> before = waves(e), along_ys = transformed(before, e, 1, -1),
                              back = transformed(transformed(before, e, 1, 1), e, 2, 1),
                              along_zs = transformed(before, e, 2, -1), along_xs = transformed(before, e, 0, -1);
    for (const cleave::grid& g : grids()) {
      tensor<c128, mesh(x_dim / data, y_dim, z_dim)> a(g, {e[0], e[1], e[2]}), y(g, {e[0], e[1], e[2]});
      fill(a, e);
      y = fft(a, y_dim);
      expect_near(y.to_global(), along_ys, 1e-11);
      y = ifft(a, y_dim, z_dim);
      expect_near(y.to_global(), back, 1e-11);
      y = fft(a, z_dim);
      expect_near(y.to_global(), along_zs, 1e-11);
      y = fft(a, x_dim);
      expect_near(y.to_global(), along_xs, 1e-11);
    }
  }
}
// Results that are stored past the caches, and tiles that are not the whole array. A wave has one peak.
TEST(fft, of_large_arrays) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const std::int64_t x = 128 * support::ranks(), y = 130, z = 136;
  Slab a(g, {x, y, z}), back(g, {x, y, z});
  TurnedSlab peak(g, {x, y, z});
  a.fill_by([&](const auto& at) {
    const double turns = 5.0 * static_cast<double>(at[0]) / static_cast<double>(x) +
                         3.0 * static_cast<double>(at[1]) / static_cast<double>(y) +
                         7.0 * static_cast<double>(at[2]) / static_cast<double>(z);
    const number w = std::polar(1.0, 2 * std::numbers::pi * turns);
    return c64(static_cast<float>(w.real()), static_cast<float>(w.imag()));
  });
  peak = three(a);
  const auto extents = peak.local_extents(), first = peak.offset();
  const auto values = support::elements(peak), before = support::elements(a);
  double worst = 0;
  for (std::int64_t i = 0, at = 0; i < extents[0]; ++i)
    for (std::int64_t j = 0; j < extents[1]; ++j)
      for (std::int64_t k = 0; k < extents[2]; ++k, ++at) {
        const bool here = i + first[0] == 5 && j + first[1] == 3 && k + first[2] == 7;
        const auto want = here ? static_cast<double>(x * y * z) : 0.0;
        worst = std::max(worst, std::abs(static_cast<double>(values[static_cast<std::size_t>(at)].real()) - want));
      }
  EXPECT_LT(worst, 1e-5 * static_cast<double>(x * y * z));
  back = ifft(peak, x_dim, y_dim, z_dim);
  worst = 0;
  const auto after = support::elements(back);
  for (std::size_t i = 0; i < before.size(); ++i)
    worst = std::max(worst, static_cast<double>(Kokkos::abs(after[i] - before[i])));
  EXPECT_LT(worst, 1e-4);
}

template <class T, auto Real, auto Spectrum>
void check_real(double tolerance) {
  using complex = Kokkos::complex<T>;
  for (const cleave::grid& g : grids())
    for (const auto& [n, m] :
         {std::pair<std::int64_t, std::int64_t>{8, 5}, {7, 3}, {1, 2}, {2, 4}, {0, 3}, {12, 0}, {64, 37}, {33, 150}}) {
      tensor<T, Real> a(g, {n, m}), again(g, {n, m});
      tensor<complex, Spectrum> y(g, {n / 2 + 1, m});
      std::vector<number> before;
      for (std::int64_t i = 0; i < n * m; ++i) before.emplace_back(wave(i).real());
      a.fill_by([m = m](const auto& at) { return static_cast<T>(wave(at[0] * m + at[1]).real()); });
      y = rfft(a, x_dim, frequency);
      std::vector<number> want = transformed(before, {n, m}, 0, -1);
      want.resize(static_cast<std::size_t>((n / 2 + 1) * m));
      expect_near(y.to_global(), want, tolerance);
      if (n == 0) continue;
      again = irfft(y, frequency, x_dim);
      const auto got = again.to_global();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(static_cast<double>(got[i]), before[i].real(), tolerance);
      // What was read is as it was.
      expect_near(y.to_global(), want, tolerance);
    }
}
TEST(fft, of_real_numbers) {
  check_real<double, mesh(x_dim, y_dim / data), mesh(frequency, y_dim / data)>(1e-12);
  check_real<double, mesh(x_dim / data, y_dim / model), mesh(frequency / model, y_dim)>(1e-12);
  check_real<float, mesh(x_dim / data / model, y_dim), mesh(frequency / data, y_dim / model)>(1e-5);
}
// Rows of an odd number of real elements begin where no complex number could. The first number of a half spectrum and,
// of an even length, the last are real by definition: what their imaginary parts are does not count.
template <class T>
void check_middle_dim(double tolerance) {
  using complex = Kokkos::complex<T>;
  constexpr std::int64_t outer = 5, inner = 3;
  for (const cleave::grid& g : grids())
    for (const std::int64_t n : {7, 10}) {
      tensor<T, mesh(z_dim / data, x_dim, y_dim)> a(g, {outer, n, inner}), again(g, {outer, n, inner});
      tensor<complex, mesh(z_dim / data, frequency, y_dim)> y(g, {outer, n / 2 + 1, inner});
      const auto flat = [n](const auto& at, std::int64_t extent) { return (at[0] * extent + at[1]) * inner + at[2]; };
      std::vector<number> before;
      for (std::int64_t i = 0; i < outer * n * inner; ++i) before.emplace_back(wave(i).real());
      a.fill_by([&](const auto& at) { return static_cast<T>(wave(flat(at, n)).real()); });
      y = rfft(a, x_dim, frequency);
      const std::vector<number> whole = transformed(before, {outer, n, inner}, 1, -1);
      std::vector<number> want;
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t k = 0; k <= n / 2; ++k)
          for (std::int64_t i = 0; i < inner; ++i)
            want.push_back(whole[static_cast<std::size_t>((o * n + k) * inner + i)]);
      expect_near(y.to_global(), want, tolerance);
      y.fill_by([&](const auto& at) {
        const number w = want[static_cast<std::size_t>(flat(at, n / 2 + 1))];
        const bool is_real = at[1] == 0 || 2 * at[1] == n;
        return complex(static_cast<T>(w.real()), static_cast<T>(is_real ? 7.0 : w.imag()));
      });
      again = irfft(y, frequency, x_dim);
      const auto got = again.to_global();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(static_cast<double>(got[i]), before[i].real(), tolerance);
    }
}
TEST(fft, of_real_numbers_along_a_middle_dim) {
  check_middle_dim<double>(1e-12);
  check_middle_dim<float>(1e-5);
}
// Inside of a function the extent of the spectrum follows from that of the numbers.
constexpr cleave::function filtered([](auto a) {
  const auto spectrum = rfft(a, x_dim, frequency);
  const auto low = cleave::cast<double>(iota(spectrum, frequency)) < 3.0;
  return irfft(select(low, spectrum, 0.0), frequency, x_dim);
});
TEST(fft, spectra_within_a_function) {
  for (const cleave::grid& g : grids())
    for (const std::int64_t n : {8, 9}) {
      tensor<double, mesh(y_dim / data, x_dim)> a(g, {4, n}), low(g, {4, n});
      const auto wave_at = [n](std::int64_t i, double times) {
        return std::cos(2 * std::acos(-1.0) * times * static_cast<double>(i) / static_cast<double>(n));
      };
      a.fill_by([&](const auto& at) { return 1.0 + wave_at(at[1], 2) + 0.5 * wave_at(at[1], 4); });
      low = filtered(a);
      const auto got = low.to_global();
      for (std::int64_t i = 0; i < 4 * n; ++i)
        EXPECT_NEAR(got[static_cast<std::size_t>(i)], 1.0 + wave_at(i % n, 2), 1e-12);
    }
}
// What follows a transform elementwise begins with the dim that is unsharded then: one exchange there, one back.
constexpr cleave::function solved_spectrally([](auto a) {
  const auto h = cleave::linalg::fft(a, y_dim, x_dim);
  const auto symbol = 1.0 + cleave::cast<double>(broadcast(iota(h, y_dim), y_dim, x_dim) + iota(h, x_dim));
  return cleave::linalg::ifft(h / complex(symbol, 0.0 * symbol), y_dim, x_dim);
});
using Field = tensor<c128, mesh(x_dim / data, y_dim)>;
constexpr auto spectral = cleave::plan<Field(Field)>(solved_spectrally, cleave::expect<data, 4>{},
                                                     cleave::expect<model, 1>{}, cleave::expect<y_dim, 512>{},
                                                     cleave::expect<x_dim, 512>{});
static_assert(spectral.count(kind::all_to_all) == 2 && spectral.collectives() == 2);
// What is made of indices alone is made where it is read: three shards, and no whole array.
static_assert(spectral.workspace({data = 4, model = 1, y_dim = 512, x_dim = 512}) < 4 * 512 * 512 / 4 * 16);
TEST(fft, spectra_have_their_extent) {
  for (const cleave::grid& g : grids()) {
    tensor<double, mesh(x_dim / data)> a(g, {8});
    tensor<c128, mesh(frequency / data)> y(g, {8});
    EXPECT_THROW(y = rfft(a, x_dim, frequency), cleave::shape_error);
  }
}

TEST(fft, warm_calls_take_nothing_from_the_heap) {
  for (const cleave::grid& g : grids()) {
    tensor<c128, mesh(x_dim / data / model, y_dim)> a(g, {8, 16}), y(g, {8, 16});
    fill(a, {8, 16});
    y = along_y(a);
    y = back_along_y(y);
    y = along_y(a);
    y = back_along_y(y);
    const std::int64_t before = support::allocations();
    y = along_y(a);
    y = back_along_y(y);
    if (support::heap_is_left_alone) {
      EXPECT_EQ(support::allocations(), before);
    }
  }
}

#ifndef KOKKOS_ENABLE_CUDA
// The first device of a grid says how plans of FFTW are chosen, whatever the others would do, and all get its plan:
// values that several devices have are equal to the bit.
TEST(fft, devices_agree_on_plans) {
  using cleave::linalg::fft_plan_mode;
  using cleave::linalg::fft_plans;
  namespace detail = cleave::linalg::detail;
  const fft_plans before = fft_plan_mode();
  const bool first = support::rank() == 0;
  const detail::plan_key key{cleave::linalg::transform::forward, 360, detail::block_form::widest(360, true, true),
                             true};
  for (const fft_plans of_first : {fft_plans::measured, fft_plans::estimated}) {
    fft_plan_mode() = first == (of_first == fft_plans::measured) ? fft_plans::measured : fft_plans::estimated;
    const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
    tensor<c128, mesh(x_dim, y_dim)> a(g, {12, 360}), y(g, {12, 360});
    fill(a, {12, 360});
    y = along_y(a);
    const auto* const agreed = detail::plans_of_process<double>::all().agreed(g.state().id(), key);
    ASSERT_NE(agreed, nullptr);
    const bool estimated = agreed == &detail::plans_of_process<double>::all().made_with(key, {});
    EXPECT_EQ(estimated, of_first == fft_plans::estimated);
    const std::vector<number> here(y.data(), y.data() + y.local_size());
    std::vector<number> theirs = here;
    MPI_Bcast(theirs.data(), static_cast<int>(2 * theirs.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < here.size(); ++i) ASSERT_EQ(here[i], theirs[i]) << "element " << i;
  }
  fft_plan_mode() = before;
}
#endif

} // namespace CLEAVE_SOURCE
