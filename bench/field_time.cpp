// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of stencils in two and three dims, and conjugate gradients, against the same by hand, both in this process.
//
//   mpirun -n 2 field_time RESULTS.jsonl [seconds for each measurement [square, torus, cube or cg]]
#include "by_hand_fields.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"x"> dx;
inline constexpr cleave::dim<"y"> dy;
inline constexpr cleave::dim<"z"> dz;
template <class T>
using Square = cleave::tensor<T, mesh(dx / line, dy)>;
template <class T>
using Cube = cleave::tensor<T, mesh(dx / line, dy, dz)>;
using Number = cleave::tensor<double, mesh()>;

template <class V, class... D>
constexpr auto around(V u, int far, const D&... along) {
  return (... + (shift(u, along, far) + shift(u, along, -far)));
}
constexpr cleave::function five_points([](auto u) {
  return cleave::interior(0.25 * around(u, 1, dx, dy), u, 1, dx, dy);
});
// The border never changes, so the field that is written has it already, by hand as well.
constexpr cleave::function seven_points([](auto u, auto next) {
  return cleave::interior(around(u, 1, dx, dy, dz) * (1.0 / 6), next, 1, dx, dy, dz);
});
constexpr cleave::function thirteen_points([](auto u, auto next) {
  return cleave::interior((around(u, 1, dx, dy, dz) + around(u, 2, dx, dy, dz)) * (1.0 / 12), next, 2, dx, dy, dz);
});

constexpr cleave::function joined_sides([](auto u) {
  const auto near = roll(u, dx, 1) + roll(u, dx, -1) + roll(u, dy, 1) + roll(u, dy, -1);
  return u + 0.1 * (near - 4 * u);
});

constexpr auto laplacian = [](auto u) { return 4 * u - around(u, 1, dx, dy); };
constexpr auto inner = [](auto a, auto b) { return dot(a, b, dx, dy); };
constexpr cleave::function iterate([](auto right, auto times) {
  const auto zero = cleave::zeros_like(right);
  return std::get<0>(repeat_times(times, std::tuple(zero, right, right, inner(right, right)), [](auto state) {
    const auto [u, r, p, rho] = state;
    const auto q = laplacian(p);
    const auto alpha = rho / inner(p, q);
    const auto next = r - alpha * q;
    const auto new_rho = inner(next, next);
    return std::tuple(u + alpha * p, next, next + (new_rho / rho) * p, new_rho);
  }));
});

template <class T>
void expect_same(const T* ours, const T* theirs, long n, const std::string& what, double tolerance) {
  double off = 0, size = 0;
  for (long i = 0; i < n; ++i) {
    off = std::max(off, std::fabs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    size = std::max(size, std::fabs(static_cast<double>(theirs[i])));
  }
  if (!(off <= tolerance * size)) throw std::runtime_error("the two programs differ in " + what);
}

struct measured {
  const measure::task& with;
  const cleave::grid& grid;

  bool wanted(const char* part) const { return with.only.empty() || with.only == part; }
  std::string where() const { return " on " + std::to_string(with.ranks) + (with.ranks == 1 ? " rank" : " ranks"); }

  /// Steps from one field to another one, which are swapped. `step(u, other)` writes the other one.
  template <class Field, class Hand, class Step>
  void steps(const std::string& what, Field u, Field other, Hand& hand, const Step& step) const {
    using T = typename Field::element_type;
    const auto ours = [&] {
      step(u, other);
      std::swap(u, other);
    };
    ours();
    hand.sweep();
    expect_same(static_cast<const T*>(u.data()), hand.data(), static_cast<long>(u.local_size()), what, 1e-5);
    // One field is read and one written.
    const double bytes = 2.0 * sizeof(T) * static_cast<double>(u.size());
    with.out.factor(what + where(), measure::compare(with.comm, 2, with.seconds, ours, [&] { hand.sweep(); }), 1.1,
                    measure::work::bytes(bytes));
  }
};

/// A number between -1 and 1 for a position.
template <class At>
double number(const At& at) {
  long flat = 0;
  for (const auto i : at) flat = flat * 523 + static_cast<long>(i);
  return std::sin(0.1 * static_cast<double>(flat % 7919));
}

template <class T>
void run_square(const measured& m, const std::string& type) {
  const long n = 4096;
  Square<T> u(m.grid, {n, n}), other(m.grid, {n, n});
  u.fill_by([](const auto& at) { return static_cast<T>(number(at)); });
  by_hand::square<T> hand(m.with.comm, static_cast<long>(u.local_extents()[0]), n, u.data());
  m.steps("5 points of 4096^2, " + type, u, other, hand, [](const auto& from, auto& to) { to = five_points(from); });
}
template <class T>
void run_torus(const measured& m, const std::string& type) {
  const long n = 4096;
  Square<T> u(m.grid, {n, n}), other(m.grid, {n, n});
  u.fill_by([](const auto& at) { return static_cast<T>(number(at)); });
  by_hand::torus<T> hand(m.with.comm, static_cast<long>(u.local_extents()[0]), n, u.data());
  m.steps("5 points of 4096^2, sides joined, " + type, u, other, hand,
          [](const auto& from, auto& to) { to = joined_sides(from); });
}
template <class T, class Step>
void run_cube(const measured& m, const std::string& what, long n, long reach, const Step& step) {
  Cube<T> u(m.grid, {n, n, n}), other(m.grid, {n, n, n});
  u.fill_by([](const auto& at) { return static_cast<T>(number(at)); });
  other.fill_by([](const auto& at) { return static_cast<T>(number(at)); });
  by_hand::cube<T> hand(m.with.comm, static_cast<long>(u.local_extents()[0]), n, reach, u.data());
  m.steps(what, u, other, hand, [&](const Cube<T>& from, Cube<T>& to) { to = step(from, to); });
}
void run_cg(const measured& m) {
  const long n = 1024;
  constexpr int times = 20;
  Square<double> right(m.grid, {n, n}), u(m.grid, {n, n});
  right.fill_by([](const auto& at) { return number(at); });
  by_hand::poisson hand(m.with.comm, static_cast<long>(u.local_extents()[0]), n, right.data());
  const auto ours = [&] { u = iterate(right, times); };
  const auto theirs = [&] { hand.solve(times); };
  ours();
  theirs();
  expect_same(static_cast<const double*>(u.data()), hand.solution(), static_cast<long>(u.local_size()), "CG", 1e-9);
  m.with.out.factor("20 iterations of CG, 1024^2" + m.where(),
                    measure::compare(m.with.comm, 1, m.with.seconds, ours, theirs), 1.15);
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 2, [](const measure::task& t) {
    const cleave::grid grid(mesh, t.comm, {t.ranks});
    const measured m{t, grid};
    if (m.wanted("square")) {
      run_square<float>(m, "float");
      run_square<double>(m, "double");
    }
    if (m.wanted("torus")) {
      run_torus<float>(m, "float");
      run_torus<double>(m, "double");
    }
    if (m.wanted("cube")) {
      run_cube<float>(m, "7 points of 256^3, float", 256, 1, seven_points);
      run_cube<double>(m, "7 points of 256^3, double", 256, 1, seven_points);
      run_cube<double>(m, "13 points of 128^3, double", 128, 2, thirteen_points);
    }
    if (m.wanted("cg")) run_cg(m);
  });
}
