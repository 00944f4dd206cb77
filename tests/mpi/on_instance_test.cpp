// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/shards.hpp>
#include <cleave/tensor/on_instance.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

// Calls on instances of the caller: values are those of calls without one, and a tool sees on which instance each
// kernel runs.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"inner"> inner;
using Plane = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Left = cleave::tensor<double, mesh(row / ay, inner)>;
using Right = cleave::tensor<double, mesh(inner, col / ax)>;
using Number = cleave::tensor<double, mesh()>;

constexpr cleave::function sweep([](auto u) {
  return 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
});
constexpr cleave::function program([](auto u, auto a, auto b) {
  auto v = sweep(u) + dot(a, b, inner);
  return std::tuple(v, sum(v * v), sort(v, row));
});

std::set<std::uint32_t>& devices() {
  static std::set<std::uint32_t> seen;
  return seen;
}
void note_device(const char*, std::uint32_t device, std::uint64_t*) { devices().insert(device); }

/// The devices on which kernels run while f does.
template <class F>
std::set<std::uint32_t> devices_of(const F& f) {
  devices().clear();
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(&note_device);
  f();
  Kokkos::fence();
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
  return devices();
}
template <class Space>
std::uint32_t number_of(const Space& s) {
  return Kokkos::Tools::Experimental::device_id(s);
}

/// Runs the program on an instance, and beside it; what both give is equal bit for bit.
template <class Space>
void check(const Space& space) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {37, 50}), v(g, {37, 50}), w(g, {37, 50}), v2(g, {37, 50}), w2(g, {37, 50});
    Left a(g, {37, 8});
    Right b(g, {8, 50});
    Number n(g, {}), n2(g, {});
    const auto wave = [](const auto& at) { return std::sin(static_cast<double>(3 * at[0] + 7 * at[1])); };
    u.fill_by(wave);
    a.fill_by(wave);
    b.fill_by(wave);
    program(u, a, b).into(v, n, w);
    {
      const cleave::on_instance here(space);
      program(u, a, b).into(v2, n2, w2);
      v2 = sweep(v2);
    }
    v = sweep(v);
    EXPECT_EQ(v.to_global(), v2.to_global());
    EXPECT_EQ(w.to_global(), w2.to_global());
    EXPECT_EQ(n.item(), n2.item());
  }
}

/// All kernels between two fences, and none but them, run on the instance.
template <class Space>
void check_devices(const Space& space) {
  const cleave::grid g = support::grids(mesh).front();
  Plane u(g, {37, 50});
  u.fill(1.5);
  const auto steps = [&] {
    u = sweep(u);
    u = u + 1.0;
  };
  const std::set<std::uint32_t> own{number_of(cleave::execution_instance())}, given{number_of(space)};
  EXPECT_EQ(devices_of(steps), own);
  EXPECT_EQ(devices_of([&] { cleave::on(space, steps); }), given);
  EXPECT_EQ(devices_of(steps), own);
}

/// As many parts of the host's threads as there are threads, up to two.
std::vector<cleave::execution_space> parts() {
  const cleave::execution_space all;
  if (all.concurrency() < 2) return {all};
  const auto made = Kokkos::Experimental::partition_space(all, 1, 1);
  return {made.begin(), made.end()};
}

TEST(on_instance, values_are_equal) {
  check(cleave::execution_space());
  for (const cleave::execution_space& part : parts()) check(part);
}
TEST(on_instance, kernels_run_on_the_instance) {
  check_devices(cleave::execution_space());
  for (const cleave::execution_space& part : parts()) check_devices(part);
}

#ifdef KOKKOS_ENABLE_SERIAL
TEST(on_instance, serial_beside_the_default) {
  if constexpr (cleave::on_host) {
    check(Kokkos::Serial());
    check_devices(Kokkos::Serial());
  }
}
#endif

// Two instances in turn, one within the other; each call goes to the innermost, and after an exception to the one
// before.
TEST(on_instance, nested) {
  const std::vector<cleave::execution_space> all = parts();
  const cleave::execution_space &one = all.front(), &two = all.back();
  EXPECT_EQ(&cleave::execution_instance(), &cleave::execution_instance());
  const cleave::execution_space* const own = &cleave::execution_instance();
  {
    const cleave::on_instance outer(one);
    EXPECT_TRUE(cleave::execution_instance() == one);
    EXPECT_EQ(cleave::on(two, [&] { return cleave::execution_instance() == two; }), true);
    EXPECT_THROW(cleave::on(two, [] { throw std::runtime_error("ends the inner one"); }), std::runtime_error);
    EXPECT_TRUE(cleave::execution_instance() == one);
    EXPECT_NE(&cleave::execution_instance(), own);
  }
  EXPECT_EQ(&cleave::execution_instance(), own);
}

// A warm call takes nothing from the heap on an instance either.
TEST(on_instance, warm_calls_take_nothing_from_the_heap) {
  const cleave::grid g = support::grids(mesh).front();
  Plane u(g, {37, 50});
  u.fill(1.0);
  for (const cleave::execution_space& part : parts()) {
    const cleave::on_instance here(part);
    for (int k = 0; k < 2; ++k) u = sweep(u);
    const support::heap_count taken;
    if (support::heap_is_left_alone && part.concurrency() == 1) {
      u = sweep(u);
      EXPECT_EQ(taken(), 0);
    }
  }
}

} // namespace CLEAVE_SOURCE
