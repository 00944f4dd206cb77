// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a device can do, and how much of it programs get: products beside the vendor's BLAS called by hand, elementwise
// chains and stencils beside a copy of as many bytes. bench/gpu.py runs it; on the host it runs too.
//
//   gpu_time RESULTS.jsonl [seconds for each measurement [product, chain or stencil]]
#include "measure.hpp"

#include <cleave/cleave.hpp>

#include <KokkosBlas3_gemm.hpp>

namespace {

inline constexpr cleave::axis<"device"> device;
inline constexpr cleave::mesh mesh{device};
inline constexpr cleave::dim<"i"> di;
inline constexpr cleave::dim<"j"> dj;
inline constexpr cleave::dim<"k"> dk;
using A = cleave::tensor<float, mesh(di / device, dk)>;
using B = cleave::tensor<float, mesh(dk, dj)>;
using C = cleave::tensor<float, mesh(di / device, dj)>;

constexpr cleave::function product([](auto a, auto b) { return dot(a, b, dk); });
constexpr cleave::function chain([](auto x, auto y) { return relu(2 * x + y) * (1 - x); });
constexpr cleave::function sweep([](auto u) {
  return 0.5f * u + 0.125f * (shift(u, di, 1) + shift(u, di, -1) + shift(u, dj, 1) + shift(u, dj, -1));
});

using bytes_view = Kokkos::View<char*, cleave::memory_space>;

/// Copies half of the bytes from one half of a View to the other: as many read as written.
struct copied {
  bytes_view from, to;
  explicit copied(std::int64_t bytes)
      : from("from", static_cast<std::size_t>(bytes / 2)), to("to", static_cast<std::size_t>(bytes / 2)) {}
  void operator()() const {
    Kokkos::deep_copy(to, from);
    cleave::wait_for_kernels();
  }
};

template <class Tensor>
void fill(Tensor& t) {
  t.fill_by([](const auto& at) { return static_cast<float>((at[0] * 7 + at[1] * 5) % 11 - 5); });
}

void measure_all(const measure::task& with) {
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  const auto wanted = [&](const char* part) { return with.only.empty() || with.only == part; };
  // On the host, as much as ends in seconds.
  const std::int64_t n = (cleave::on_host ? 1024 : 8192), m = (cleave::on_host ? 2048 : 16384);
  if (wanted("product")) {
    A a(grid, {n, n});
    B b(grid, {n, n});
    C c(grid, {n, n}), by_hand(grid, {n, n});
    fill(a);
    fill(b);
    const auto t = measure::compare(
        with.comm, 1, with.seconds,
        [&] {
          c = product(a, b);
          cleave::wait_for_kernels();
        },
        [&] {
          KokkosBlas::gemm(cleave::execution_space(), "N", "N", 1.0f, a.view(), b.view(), 0.0f, by_hand.view());
          Kokkos::fence();
        });
    with.out.factor("product " + std::to_string(n) + " float, beside the BLAS", t, 1.1);
  }
  C x(grid, {m, m}), y(grid, {m, m}), z(grid, {m, m});
  fill(x);
  fill(y);
  const std::int64_t bytes = x.local_size() * 4;
  if (wanted("chain")) {
    const auto t = measure::compare(
        with.comm, 1, with.seconds,
        [&] {
          z = chain(x, y);
          cleave::wait_for_kernels();
        },
        copied(3 * bytes));
    with.out.factor("chain of " + std::to_string(m) + "^2, beside a copy of as many bytes", t, 1.2);
  }
  if (wanted("stencil")) {
    const auto t = measure::compare(
        with.comm, 1, with.seconds,
        [&] {
          z = sweep(x);
          cleave::wait_for_kernels();
        },
        copied(2 * bytes));
    with.out.factor("stencil of " + std::to_string(m) + "^2, beside a copy of as many bytes", t, 1.5);
  }
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 2, [](const measure::task& with) { measure_all(with); });
}
