// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: Jacobi sweeps over a plate with obstacles and fixed borders, until the largest change
// is below a tolerance.
#include <cleave/cleave.hpp>

namespace plate {

inline constexpr cleave::axis<"y"> y;
inline constexpr cleave::axis<"x"> x;
inline constexpr cleave::mesh mesh{y, x};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Field = cleave::tensor<double, mesh(row / y, col / x)>;
using Mask = cleave::tensor<bool, mesh(row / y, col / x)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;

constexpr cleave::function solve([](auto u, auto solid, auto tolerance, auto start, auto zero) {
  return repeat_until(
      std::tuple(u, start, zero),
      [=](auto state) {
        const auto [now, change, sweeps] = state;
        const auto mean = 0.25 * (shift(now, row, 1) + shift(now, row, -1) + shift(now, col, 1) + shift(now, col, -1));
        const auto next = cleave::interior(select(solid, now, mean), now, 1, row, col);
        return std::tuple(next, max(abs(next - now)), sweeps + 1);
      },
      [=](auto state) { return std::get<1>(state) < tolerance; }, 100000);
});
constexpr auto plan = cleave::plan<std::tuple<Field, Number, Count>(Field, Mask, double, double, int)>(solve);
static_assert(plan.count(cleave::kind::exchange) == 1 && plan.count(cleave::kind::all_reduce) == 1);

void run(Field& u, const Mask& solid, Number& change, Count& sweeps) {
  solve(u, solid, 1e-6, 1e300, 0).into(u, change, sweeps);
}

} // namespace plate
