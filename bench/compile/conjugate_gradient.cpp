// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: conjugate gradients for the 5-point Laplacian, as one loop, with its communication
// asserted.
#include <cleave/cleave.hpp>

namespace poisson {

inline constexpr cleave::axis<"y"> y;
inline constexpr cleave::axis<"x"> x;
inline constexpr cleave::mesh mesh{y, x};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Field = cleave::tensor<double, mesh(row / y, col / x)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;

constexpr auto laplacian = [](auto u) {
  return 4 * u - shift(u, row, 1) - shift(u, row, -1) - shift(u, col, 1) - shift(u, col, -1);
};
constexpr auto inner = [](auto a, auto b) { return dot(a, b, row, col); };

constexpr cleave::function solve([](auto right, auto start, auto tolerance, auto zero) {
  const auto residual = right - laplacian(start);
  const auto [u, r, p, rho, count] = repeat_until(
      std::tuple(start, residual, residual, inner(residual, residual), zero),
      [](auto state) {
        const auto [u, r, p, rho, count] = state;
        const auto q = laplacian(p);
        const auto alpha = rho / inner(p, q);
        const auto next = r - alpha * q;
        const auto new_rho = inner(next, next);
        return std::tuple(u + alpha * p, next, next + (new_rho / rho) * p, new_rho, count + 1);
      },
      [=](auto state) { return std::get<3>(state) < tolerance; }, 1000);
  return std::tuple(u, rho, count);
});
constexpr auto plan = cleave::plan<std::tuple<Field, Number, Count>(Field, Field, double, int)>(solve);
// Before the loop and in it: one halo exchange each; one inner product before and two in it.
static_assert(plan.count(cleave::kind::exchange) == 2 && plan.count(cleave::kind::all_reduce) == 3);
static_assert(plan.collectives() == 5);

void run(const Field& right, Field& u, Number& rho, Count& count) { solve(right, u, 1e-20, 0).into(u, rho, count); }

} // namespace poisson
