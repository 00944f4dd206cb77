// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Elementwise operations and small functions made of them that no other program here uses, by name, on operands sharded
// differently.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"part", 2> part;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using A = f64<mesh(row / ax, col / ay)>;
using B = f64<mesh(row, col / ay / ax)>;
using Y = f64<mesh(row / ay, col / ax)>;

double a_at(std::int64_t i, std::int64_t j) {
  return 2 * std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(j));
}
double b_at(std::int64_t i, std::int64_t j) {
  return 2 * std::cos(0.1 + 1.1 * static_cast<double>(i) + 0.4 * static_cast<double>(j));
}

/// Calls f(grid, rows, cols, a, b) for meshes of two axes and extents that divide and that do not.
template <class F>
void on_every_mesh(F&& f) {
  for (const auto& sizes : support::factorings(support::ranks(), 2))
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{8, 16}, {7, 5}, {1, 3}}) {
      const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
      A a(g, {rows, cols});
      B b(g, {rows, cols});
      a.fill_by([](const auto& at) { return a_at(at[0], at[1]); });
      b.fill_by([](const auto& at) { return b_at(at[0], at[1]); });
      f(g, rows, cols, a, b);
    }
}
template <class Tensor, class Wanted>
void expect_near(const Tensor& got, std::int64_t cols, Wanted wanted) {
  const auto all = got.to_global();
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::int64_t i = static_cast<std::int64_t>(k) / cols, j = static_cast<std::int64_t>(k) % cols;
    EXPECT_NEAR(all[k], wanted(a_at(i, j), b_at(i, j)), 1e-12) << "element " << k;
  }
}

// Several in one result: none is 0 where another one is wrong.
constexpr cleave::function functions([](auto a, auto b) {
  return std::tuple(abs(a) + 3 * erf(a) + 5 * sigmoid(b) + 7 * sin(a) + 11 * cos(b),
                    log(a * a + 1) + 3 * rsqrt(b * b + 1) + 5 * pow(abs(a) + 1, b) + 7 * expm1(a * b),
                    sign(a) + 3 * floor(3 * b) + 7 * maximum(a, b) + 11 * minimum(a, b) + 0.5 * relu(b) + gelu(a) +
                        tanh(b));
});
TEST(elementwise, functions) {
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B& b) {
    Y p(g, {rows, cols}), q(g, {rows, cols}), r(g, {rows, cols});
    functions(a, b).into(p, q, r);
    expect_near(p, cols, [](double x, double y) {
      return std::fabs(x) + 3 * std::erf(x) + 5 / (1 + std::exp(-y)) + 7 * std::sin(x) + 11 * std::cos(y);
    });
    expect_near(q, cols, [](double x, double y) {
      return std::log(x * x + 1) + 3 / std::sqrt(y * y + 1) + 5 * std::pow(std::fabs(x) + 1, y) + 7 * std::expm1(x * y);
    });
    expect_near(r, cols, [](double x, double y) {
      const double gelu = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      return (x > 0 ? 1 : -1) + 3 * std::floor(3 * y) + 7 * std::fmax(x, y) + 11 * std::fmin(x, y) +
             0.5 * std::fmax(y, 0) + gelu + std::tanh(y);
    });
  });
}

// Functions of <cmath>, with operands in the part of the line where each is defined.
constexpr cleave::function mathematics([](auto a, auto b) {
  const auto inside = 0.4 * a, above = 1 + a * a;
  return std::tuple(tan(inside) + 3 * asin(inside) + 5 * acos(inside) + 7 * atan(a) + 11 * atan2(a, b) +
                        13 * atan2(b, 0.5),
                    sinh(a) + 3 * cosh(a) + 5 * asinh(a) + 7 * acosh(above) + 11 * atanh(inside) + 13 * hypot(a, b),
                    exp2(a) + 3 * log2(above) + 5 * log10(above) + 7 * log1p(a * a) + 11 * cbrt(a) + 13 * erfc(a),
                    ceil(a) + 3 * trunc(3 * b) + 5 * round(3 * a));
});
TEST(elementwise, mathematics) {
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B& b) {
    Y p(g, {rows, cols}), q(g, {rows, cols}), r(g, {rows, cols}), s(g, {rows, cols});
    mathematics(a, b).into(p, q, r, s);
    expect_near(p, cols, [](double x, double y) {
      return std::tan(0.4 * x) + 3 * std::asin(0.4 * x) + 5 * std::acos(0.4 * x) + 7 * std::atan(x) +
             11 * std::atan2(x, y) + 13 * std::atan2(y, 0.5);
    });
    expect_near(q, cols, [](double x, double y) {
      return std::sinh(x) + 3 * std::cosh(x) + 5 * std::asinh(x) + 7 * std::acosh(1 + x * x) +
             11 * std::atanh(0.4 * x) + 13 * std::hypot(x, y);
    });
    expect_near(r, cols, [](double x, double) {
      return std::exp2(x) + 3 * std::log2(1 + x * x) + 5 * std::log10(1 + x * x) + 7 * std::log1p(x * x) +
             11 * std::cbrt(x) + 13 * std::erfc(x);
    });
    expect_near(s, cols,
                [](double x, double y) { return std::ceil(x) + 3 * std::trunc(3 * y) + 5 * std::round(3 * x); });
    // As a statement.
    p = log1p(a * a) + round(3 * a);
    expect_near(p, cols, [](double x, double) { return std::log1p(x * x) + std::round(3 * x); });
  });
}

// In float, and in 16 bits, which are computed as float; with the derivative.
template <class T>
void expect_in(double tolerance) {
  using V = cleave::tensor<T, mesh(row / ax)>;
  constexpr cleave::function f(
      [](auto v) { return sum(tan(v) + 3 * log1p(v) + 5 * atan2(v, v + 1) + 7 * cbrt(v + 1)); });
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
    V v(g, {5}), slope(g, {5});
    v.fill_by([](const auto& at) { return static_cast<T>(0.25f * static_cast<float>(at[0])); });
    slope = cleave::grad(f)(v);
    const auto all = slope.to_global();
    for (std::size_t k = 0; k < all.size(); ++k) {
      const double x = 0.25 * static_cast<double>(k), t = std::tan(x), c = std::cbrt(x + 1);
      const double wanted = 1 + t * t + 3 / (1 + x) + 5 / (x * x + (x + 1) * (x + 1)) + 7 / (3 * c * c);
      EXPECT_NEAR(static_cast<double>(static_cast<float>(all[k])), wanted, tolerance * wanted);
    }
  }
}
TEST(elementwise, mathematics_of_short_elements) {
  expect_in<float>(1e-5);
  expect_in<cleave::half>(1e-2);
  expect_in<cleave::bfloat16>(5e-2);
}

// Their derivatives, beside differences of the functions of <cmath>.
template <class Function, class Plain>
void expect_slopes(const Function& slopes, Plain plain) {
  on_every_mesh([&](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B& b) {
    Y p(g, {rows, cols}), q(g, {rows, cols});
    slopes(a, b).into(p, q);
    const double h = 1e-5;
    const auto all = p.to_global(), other = q.to_global();
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::int64_t i = static_cast<std::int64_t>(k) / cols, j = static_cast<std::int64_t>(k) % cols;
      const double x = a_at(i, j), y = b_at(i, j);
      EXPECT_NEAR(all[k], (plain(x + h, y) - plain(x - h, y)) / (2 * h), 1e-6 * (1 + std::fabs(all[k]))) << x;
      EXPECT_NEAR(other[k], (plain(x, y + h) - plain(x, y - h)) / (2 * h), 1e-6 * (1 + std::fabs(other[k]))) << y;
    }
  });
}
constexpr cleave::function angles([](auto a, auto b) {
  const auto inside = 0.4 * a;
  return sum(tan(inside) + 3 * asin(inside) + 5 * acos(0.3 * b) + 7 * atan(a) + 11 * atan2(a, b));
});
constexpr cleave::function hyperbolic([](auto a, auto b) {
  return sum(sinh(a) + 3 * cosh(b) + 5 * asinh(a) + 7 * acosh(2 + a * a) + 11 * atanh(0.4 * b) + 13 * hypot(a, 3 + b));
});
constexpr cleave::function powers([](auto a, auto b) {
  const auto above = 1 + a * a;
  return sum(exp2(a) + 3 * log2(above) + 5 * log10(1 + b * b) + 7 * log1p(a * a) + 11 * cbrt(3 + a) + 13 * erfc(b) +
             ceil(a) * 0.0 + round(b) * 0.0);
});
TEST(elementwise, slopes_of_mathematics) {
  expect_slopes(cleave::grad<0, 1>(angles), [](double x, double y) {
    return std::tan(0.4 * x) + 3 * std::asin(0.4 * x) + 5 * std::acos(0.3 * y) + 7 * std::atan(x) +
           11 * std::atan2(x, y);
  });
  expect_slopes(cleave::grad<0, 1>(hyperbolic), [](double x, double y) {
    return std::sinh(x) + 3 * std::cosh(y) + 5 * std::asinh(x) + 7 * std::acosh(2 + x * x) + 11 * std::atanh(0.4 * y) +
           13 * std::hypot(x, 3 + y);
  });
  expect_slopes(cleave::grad<0, 1>(powers), [](double x, double y) {
    return std::exp2(x) + 3 * std::log2(1 + x * x) + 5 * std::log10(1 + y * y) + 7 * std::log1p(x * x) +
           11 * std::cbrt(3 + x) + 13 * std::erfc(y);
  });
}

// Slopes of steps are 0 also where what is beside them is infinite, and that of a distance from itself is finite.
constexpr cleave::function steps([](auto a, auto b) {
  return sum(1.0 / ceil(a) + 1.0 / trunc(a) + 1.0 / round(a)) + sum(hypot(a, b));
});
TEST(elementwise, slopes_of_steps_and_of_no_distance) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  f64<mesh(row / ax)> a(g, {8}), b(g, {8}), da(g, {8}), db(g, {8});
  a.fill(-0.0);
  b.fill(0.0);
  cleave::grad<0, 1>(steps)(a, b).into(da, db);
  for (const double d : da.to_global()) EXPECT_EQ(d, 0);
  for (const double d : db.to_global()) EXPECT_EQ(d, 0);
}

constexpr cleave::function logic([](auto a, auto b) {
  const auto between = (a >= -1.0) & (a <= 1.0), other = (!(b < 0.5)) | (a == b) | (b != b);
  return cleave::cast<double>(between) + 2 * cleave::cast<double>(other);
});
constexpr cleave::function complex_parts([](auto a, auto b) {
  const auto z = complex(a, b);
  return real(z * z) + 3 * imag(conj(z));
});
TEST(elementwise, logic_and_complex_parts) {
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B& b) {
    Y y(g, {rows, cols});
    y = logic(a, b);
    expect_near(y, cols, [](double x, double z) { return (std::fabs(x) <= 1 ? 1 : 0) + (z >= 0.5 || x == z ? 2 : 0); });
    y = complex_parts(a, b);
    expect_near(y, cols, [](double x, double z) { return x * x - z * z - 3 * z; });
  });
}

// Along the dim that is sharded: rows less their logarithmic sum and over their variance; the mean of each taken as
// given.
constexpr cleave::function rows_of([](auto a) {
  const auto squares = cleave::count<double>(a, col) * broadcast(variance(a, col), row, col);
  return log_softmax(a, col) + 3 * squares;
});
constexpr cleave::function held([](auto a) {
  return cleave::grad(cleave::function([](auto v) { return sum(v * cleave::stop_gradient(v * v)); }))(a);
});
constexpr cleave::function stacked([](auto a, auto b) { return sum(cleave::stack(part, a, 2 * b), part); });
TEST(elementwise, functions_along_dims_and_stacks) {
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B& b) {
    Y y(g, {rows, cols});
    y = stacked(a, b);
    expect_near(y, cols, [](double x, double z) { return x + 2 * z; });
    y = held(a);
    expect_near(y, cols, [](double x, double) { return x * x; });
    y = rows_of(a);
    const auto got = y.to_global();
    for (std::int64_t i = 0; i < rows; ++i) {
      double exps = 0, mean = 0, squares = 0;
      for (std::int64_t j = 0; j < cols; ++j)
        exps += std::exp(a_at(i, j)), mean += a_at(i, j) / static_cast<double>(cols);
      for (std::int64_t j = 0; j < cols; ++j) squares += (a_at(i, j) - mean) * (a_at(i, j) - mean);
      for (std::int64_t j = 0; j < cols; ++j)
        EXPECT_NEAR(got[static_cast<std::size_t>(i * cols + j)], a_at(i, j) - std::log(exps) + 3 * squares, 1e-11);
    }
  });
}

constexpr cleave::function found_along_rows([](auto a, auto b) {
  const auto [middle, spread] = moments(a, col);
  return std::tuple(cleave::cast<double>(argmin(b, col)), middle + 10 * spread,
                    cleave::cast<double>(cleave::any(a > 1.5, col)) +
                        2 * cleave::cast<double>(cleave::all(b < 1, col)));
});
TEST(elementwise, reductions_along_the_sharded_dim) {
  using Row = f64<mesh(row / ax)>;
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B& b) {
    Row lowest(g, {rows}), both(g, {rows}), truths(g, {rows});
    found_along_rows(a, b).into(lowest, both, truths);
    const auto at = lowest.to_global(), sums = both.to_global(), found = truths.to_global();
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t least = 0;
      double mean = 0, squares = 0;
      bool above = false, below = true;
      for (std::int64_t j = 0; j < cols; ++j) {
        if (b_at(i, j) < b_at(i, least)) least = j;
        mean += a_at(i, j) / static_cast<double>(cols);
        above = above || a_at(i, j) > 1.5;
        below = below && b_at(i, j) < 1;
      }
      for (std::int64_t j = 0; j < cols; ++j) squares += (a_at(i, j) - mean) * (a_at(i, j) - mean);
      const auto k = static_cast<std::size_t>(i);
      EXPECT_EQ(at[k], static_cast<double>(least));
      EXPECT_NEAR(sums[k], mean + 10 * squares / static_cast<double>(cols), 1e-12);
      EXPECT_EQ(found[k], (above ? 1 : 0) + (below ? 2 : 0));
    }
  });
}

// What simplification takes out: the operand itself, twice, over itself, in another layout, and numbers.
constexpr cleave::function twice_itself([](auto a) { return std::tuple(1.0 * a, a / 1.0, conj(a) - 0.0); });
TEST(elementwise, operations_that_give_their_operand) {
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B&) {
    A first(g, {rows, cols}), second(g, {rows, cols});
    Y y(g, {rows, cols});
    twice_itself(a).into(first, second, y);
    const auto same = [](double x, double) { return x; };
    expect_near(first, cols, same);
    expect_near(second, cols, same);
    expect_near(y, cols, same);
    first = 1.0 * first;
    expect_near(first, cols, same);
    first = second - 0.0;
    second.fill(0);
    expect_near(first, cols, same);
    f64<mesh()> number(g, f64<mesh()>::extents_type{}), other(g, f64<mesh()>::extents_type{});
    number.fill(3);
    other = number * 1.0;
    EXPECT_EQ(other.item(), 3);
    cleave::tensor<int, mesh(row / ax, col / ay)> whole(g, {rows, cols}), none(g, {rows, cols});
    whole.fill_by([](const auto& at) { return static_cast<int>(at[0] - at[1]); });
    none.fill(7);
    none = whole + (0 - whole);
    for (const int zero : none.to_global()) EXPECT_EQ(zero, 0);
    cleave::tensor<int, mesh()> total(g, cleave::tensor<int, mesh()>::extents_type{});
    total.fill(7);
    total = sum(whole) - sum(whole);
    EXPECT_EQ(total.item(), 0);
  });
}

static_assert(cleave::vector_block == 16);
// Lines of lengths around the blocks in which they are computed: what is left of a line is computed together with
// elements that the result has already taken the place of.
constexpr cleave::function twice_and_one([](auto a) { return 2 * a + 1; });
constexpr cleave::function other_half([](auto a, auto b) { return 0.5 * (a + b); });
TEST(elementwise, lines_that_are_no_multiple_of_a_block) {
  for (const auto& sizes : support::factorings(support::ranks(), 2))
    for (const std::int64_t cols : {1, 7, 15, 16, 17, 31, 33, 47, 48, 49}) {
      const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
      A a(g, {3, cols * sizes[1]}), kept(g, {3, cols * sizes[1]});
      a.fill_by([](const auto& at) { return a_at(at[0], at[1]); });
      a = twice_and_one(a);
      kept = other_half(a, a);
      twice_and_one(kept).into(kept);
      const auto all = a.to_global(), next = kept.to_global();
      for (std::size_t k = 0; k < all.size(); ++k) {
        const std::int64_t n = cols * sizes[1], at = static_cast<std::int64_t>(k);
        const double wanted = 2 * a_at(at / n, at % n) + 1;
        EXPECT_EQ(all[k], wanted) << cols << " columns, element " << k;
        EXPECT_EQ(next[k], 2 * wanted + 1) << cols << " columns, element " << k;
      }
    }
}

// Several results of one pass over lines of such lengths: each overwrites another operand, in any order, or none.
constexpr cleave::function three_results([](auto a, auto b, auto c, auto d) {
  auto next_b = 0.5 * b + 0.25 * d;
  auto next_c = 0.25 * c + 0.5 * (d * d);
  return std::tuple(a - next_b / (next_c + 2), next_b, next_c);
});
template <class Plan>
constexpr bool is_one_pass(const Plan& plan) {
  for (std::size_t i = 1; i < plan.view().steps.size(); ++i)
    if (!cleave::is_in_pass(plan.view().steps[i])) return false;
  return true;
}
static_assert(is_one_pass(cleave::plan<std::tuple<A, A, A>(A, A, A, A)>(three_results)));
TEST(elementwise, several_results_of_one_pass) {
  for (const auto& sizes : support::factorings(support::ranks(), 2))
    for (const std::int64_t cols : {1, 7, 15, 16, 17, 31, 33, 47, 48, 49}) {
      const std::int64_t n = cols * sizes[1];
      const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
      using tensors = std::array<A, 4>;
      const auto filled = [&] {
        tensors all{A(g, {3, n}), A(g, {3, n}), A(g, {3, n}), A(g, {3, n})};
        for (int t = 0; t < 4; ++t)
          all[static_cast<std::size_t>(t)].fill_by([=](const auto& at) { return a_at(at[0] + t, at[1]); });
        return all;
      };
      const auto expect = [&](const A& first, const A& second, const A& third, const char* what) {
        const auto x = first.to_global(), y = second.to_global(), z = third.to_global();
        for (std::size_t k = 0; k < x.size(); ++k) {
          const std::int64_t i = static_cast<std::int64_t>(k) / n, j = static_cast<std::int64_t>(k) % n;
          const double d = a_at(i + 3, j), next_b = 0.5 * a_at(i + 1, j) + 0.25 * d,
                       next_c = 0.25 * a_at(i + 2, j) + 0.5 * (d * d);
          EXPECT_DOUBLE_EQ(y[k], next_b) << what << ", " << cols << " columns, element " << k;
          EXPECT_DOUBLE_EQ(z[k], next_c) << what << ", " << cols << " columns, element " << k;
          EXPECT_NEAR(x[k], a_at(i, j) - next_b / (next_c + 2), 1e-14) << what << ", " << cols << " columns";
        }
      };
      tensors t = filled();
      A x(g, {3, n}), y(g, {3, n}), z(g, {3, n});
      three_results(t[0], t[1], t[2], t[3]).into(x, y, z);
      expect(x, y, z, "other arrays");
      three_results(t[0], t[1], t[2], t[3]).into(t[0], t[1], t[2]);
      expect(t[0], t[1], t[2], "in place");
      t = filled();
      three_results(t[0], t[1], t[2], t[3]).into(t[3], t[0], t[1]);
      expect(t[3], t[0], t[1], "in the place of others");
    }
}

// The same with neighbours, some of which other devices have, and in a loop whose carried values are the results.
constexpr cleave::function two_of_neighbours([](auto a, auto b) {
  auto around = shift(a, row, 1) + shift(a, row, -1) + shift(a, col, 1) + shift(a, col, -1);
  return std::tuple(0.25 * around * b, around - b);
});
constexpr cleave::function ten_times([](auto a, auto b, auto d) {
  return repeat_times(10, std::array{a, b}, [=](const auto& s) {
    auto next = 0.5 * s[1] + 0.25 * d;
    return std::array{s[0] - 0.5 * next, next};
  });
});
TEST(elementwise, several_results_of_neighbours_and_loops) {
  on_every_mesh([](const cleave::grid& g, std::int64_t rows, std::int64_t cols, const A& a, const B&) {
    A b(g, {rows, cols}), first(g, {rows, cols}), second(g, {rows, cols});
    b.fill_by([](const auto& at) { return b_at(at[0], at[1]); });
    const auto expect = [&](const auto& wanted) {
      const auto x = first.to_global(), y = second.to_global();
      for (std::size_t k = 0; k < x.size(); ++k) {
        const auto [p, q] = wanted(static_cast<std::int64_t>(k) / cols, static_cast<std::int64_t>(k) % cols);
        EXPECT_NEAR(x[k], p, 1e-13) << "element " << k;
        EXPECT_NEAR(y[k], q, 1e-13) << "element " << k;
      }
    };
    const auto of_neighbours = [&](std::int64_t i, std::int64_t j) {
      const auto at = [&](std::int64_t k, std::int64_t l) {
        return k < 0 || l < 0 || k >= rows || l >= cols ? 0 : a_at(k, l);
      };
      const double around = at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);
      return std::pair(0.25 * around * b_at(i, j), around - b_at(i, j));
    };
    two_of_neighbours(a, b).into(first, second);
    expect(of_neighbours);
    first = 1 * a;
    two_of_neighbours(first, b).into(first, b);
    second = b;
    expect(of_neighbours);
    b.fill_by([](const auto& at) { return b_at(at[0], at[1]); });
    ten_times(a, b, a).into(first, second);
    expect([](std::int64_t i, std::int64_t j) {
      double p = a_at(i, j), q = b_at(i, j);
      for (int n = 0; n < 10; ++n) q = 0.5 * q + 0.25 * a_at(i, j), p -= 0.5 * q;
      return std::pair(p, q);
    });
  });
}

} // namespace CLEAVE_SOURCE
