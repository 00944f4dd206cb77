// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check_function.hpp"

#include <gtest/gtest.h>

#include <cmath>

// Loops on real ranks: scans and their derivatives, loops that end when their values say so, branches; what the plain
// evaluator gives, and as many bytes as the plan says.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"time"> time_dim;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using X = f64<mesh(batch / ax, embed)>;
using W1 = f64<mesh(layer, embed, hidden / ay)>;
using W2 = f64<mesh(layer, hidden / ay, embed)>;

std::vector<cleave::grid> grids() { return support::grids(mesh); }

constexpr cleave::function residual([](auto x, auto w1, auto w2) {
  auto [y, means] = scan(layer, x, std::tuple(w1, w2), [](auto h, auto w) {
    auto [a, b] = w;
    auto next = h + dot(tanh(dot(h, a, embed)), b, hidden);
    return std::pair(next, mean(next, embed));
  });
  return std::tuple(y, means);
});
constexpr cleave::function loss([](auto x, auto w1, auto w2) {
  auto [y, means] = residual(x, w1, w2);
  return sum(y * y) + sum(sin(means));
});
constexpr cleave::function gradients([](auto x, auto w1, auto w2) {
  auto [l, g] = cleave::value_and_grad<0, 1, 2>(loss)(x, w1, w2);
  auto [dx, d1, d2] = g;
  return std::tuple(l, dx, d1, d2);
});

struct extents {
  std::int64_t layers, batch, embed, hidden;
};
constexpr extents shapes[] = {{3, 8, 4, 8}, {1, 5, 3, 7}, {4, 3, 2, 5}, {0, 6, 4, 4}, {2, 1, 1, 1}};

TEST(loops, layers_are_scanned) {
  for (const cleave::grid& g : grids())
    for (const extents& e : shapes) {
      X x(g, {e.batch, e.embed}), y(g, {e.batch, e.embed});
      W1 w1(g, {e.layers, e.embed, e.hidden});
      W2 w2(g, {e.layers, e.hidden, e.embed});
      f64<mesh(layer, batch / ax)> means(g, {e.layers, e.batch});
      support::fill(x, 0.1);
      support::fill(w1, 0.2);
      support::fill(w2, 0.3);
      support::check(residual, std::tie(y, means), x, w1, w2);
    }
}
TEST(loops, gradients_are_scans_backwards) {
  for (const cleave::grid& g : grids())
    for (const extents& e : shapes) {
      X x(g, {e.batch, e.embed}), dx(g, {e.batch, e.embed});
      W1 w1(g, {e.layers, e.embed, e.hidden}), d1(g, {e.layers, e.embed, e.hidden});
      W2 w2(g, {e.layers, e.hidden, e.embed}), d2(g, {e.layers, e.hidden, e.embed});
      f64<mesh()> l(g, {});
      support::fill(x, 0.1);
      support::fill(w1, 0.2);
      support::fill(w2, 0.3);
      support::check(gradients, std::tie(l, dx, d1, d2), x, w1, w2);
    }
}

// As many bytes as the plan says, times the layers.
TEST(loops, charge_is_the_price) {
  using Y = X;
  using M = f64<mesh(layer, batch / ax)>;
  constexpr auto plan = cleave::plan<std::tuple<Y, M>(X, W1, W2)>(residual);
  for (const cleave::grid& g : grids()) {
    X x(g, {12, 4}), y(g, {12, 4});
    W1 w1(g, {5, 4, 8});
    W2 w2(g, {5, 8, 4});
    M means(g, {5, 12});
    support::fill(x, 0.1);
    support::fill(w1, 0.2);
    support::fill(w2, 0.3);
    residual(x, w1, w2).into(y, means);
    support::reset_charges();
    residual(x, w1, w2).into(y, means);
    EXPECT_EQ(support::over_ranks(support::charged_bytes()),
              plan.bytes({layer = 5, batch = 12, embed = 4, hidden = 8, ax = g.size(ax), ay = g.size(ay)}));
  }
}

// A recurrence whose input is sharded over another dim of the sequence, and weights that all iterations read.
constexpr cleave::function recurrence([](auto xs, auto w) {
  auto zero = zeros_like(sum(xs, time_dim));
  auto [last, all] = scan(
      time_dim, zero, xs,
      [w](auto h, auto x) {
        auto next = tanh(rename(dot(h, w, embed), hidden, embed) + x);
        return std::pair(next, next);
      },
      cleave::direction::backward);
  return std::tuple(last, all);
});
constexpr cleave::function recurrence_gradient([](auto xs, auto w) {
  return cleave::grad<1>(cleave::function([](auto a, auto b) {
    auto [last, all] = recurrence(a, b);
    return sum(last * last) + sum(all);
  }))(xs, w);
});
TEST(loops, recurrences_over_a_divided_sequence) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(batch, time_dim / ax, embed)> xs(g, {6, 7, 4});
    f64<mesh(embed, hidden / ay)> w(g, {4, 4}), dw(g, {4, 4});
    f64<mesh(batch / ay, embed)> last(g, {6, 4});
    f64<mesh(time_dim, batch / ay, embed)> all(g, {7, 6, 4});
    support::fill(xs, 0.4);
    support::fill(w, 0.5);
    support::check(recurrence, std::tie(last, all), xs, w);
    support::check(recurrence_gradient, std::tie(dw), xs, w);
  }
}

// How often is known here, given at run time, or decided by the values; branches.
constexpr cleave::function swaps([](auto x) {
  auto [a, b] = repeat_times(5, std::tuple(x, 2 * x), [](auto pair) {
    auto [a, b] = pair;
    return std::tuple(cleave::value(b), a + b);
  });
  return a - b;
});
constexpr cleave::function doubled([](auto times, auto x) {
  return repeat_times(times, x, [](auto v) { return 2 * v + 1; });
});
constexpr cleave::function halved([](auto x, auto most) {
  return repeat_until(x, [](auto v) { return 0.5 * v; }, [](auto v) { return max(abs(v)) < 0.01; }, most);
});
constexpr cleave::function either([](auto x) {
  return cond(sum(x) > 0.0, [](auto v) { return 2.0 * v; }, [](auto v) { return v - sum(v); }, x);
});

TEST(loops, that_values_decide) {
  for (const cleave::grid& g : grids()) {
    X x(g, {9, 3}), y(g, {9, 3});
    support::fill(x, 0.6);
    support::check(swaps, std::tie(y), x);
    for (const int times : {0, 1, 6}) {
      y = doubled(times, x);
      const auto from = x.to_global(), to = y.to_global();
      for (std::size_t i = 0; i < from.size(); ++i) EXPECT_NEAR(to[i], (from[i] + 1) * std::pow(2, times) - 1, 1e-12);
    }
    y = halved(x, 100);
    const auto from = x.to_global(), to = y.to_global();
    double largest = 0;
    for (double v : from) largest = std::max(largest, std::abs(v));
    int halvings = 1;
    for (double v = largest / 2; v >= 0.01; v /= 2) ++halvings;
    for (std::size_t i = 0; i < from.size(); ++i) EXPECT_EQ(to[i], from[i] * std::pow(0.5, halvings));
    y = halved(x, 2);
    const auto twice = y.to_global();
    for (std::size_t i = 0; i < from.size(); ++i) EXPECT_EQ(twice[i], from[i] / 4);
    support::check(either, std::tie(y), x);
    x.fill_by([](const auto&) { return -0.5; });
    support::check(either, std::tie(y), x);
  }
}

// What an iteration computes is carried on by a change of names: each iteration launches as many kernels as one step
// alone.
template <class V>
constexpr auto smoothed(V x) {
  return 0.5 * (shift(x, batch, 1) + shift(x, batch, -1)) + shift(x, embed, 1);
}
constexpr cleave::function one_step([](auto x) { return smoothed(x); });
constexpr cleave::function many_steps([](auto x, auto times) {
  return repeat_times(times, x, [](auto v) { return smoothed(v); });
});
template <class F>
int kernels_of(const F& run) {
  static int launched = 0;
  launched = 0;
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(
      [](const char*, const std::uint32_t, std::uint64_t*) { ++launched; });
  run();
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
  return launched;
}
// So many rows that each device has more of a tensor than what may live in messages.
std::int64_t large(const cleave::grid& g) { return std::int64_t(g.size(ax)) << 12; }
TEST(loops, copy_no_value_that_they_carry) {
  for (const cleave::grid& g : grids())
    for (const std::int64_t rows : {std::int64_t{12}, large(g)}) {
      X x(g, {rows, 10}), y(g, {rows, 10}), z(g, {rows, 10});
      support::fill(x, 0.4);
      const auto kernels = [&](int times) { return kernels_of([&] { y = many_steps(x, times); }); };
      y = many_steps(x, 1);
      z = one_step(x); // the first call makes its workspace
      const int one = kernels_of([&] { z = one_step(x); });
      EXPECT_GT(one, 0);
      EXPECT_EQ(kernels(14) - kernels(4), 10 * one) << rows;
      z = one_step(x);
      x = one_step(z);
      y = many_steps(z, 1);
      EXPECT_EQ(x.to_global(), y.to_global());
    }
}

// Loops in each other whose carried values change their memory. That of the result comes home: solve_methods_test.
constexpr cleave::function after_the_inner([](auto v, auto w) { return smoothed(smoothed(w) - v); });
constexpr cleave::function nested([](auto x, auto outer, auto inner) {
  return repeat_times(outer, x, [=](auto v) {
    return after_the_inner(v, repeat_times(inner, v, [](auto w) { return smoothed(w); }));
  });
});
TEST(loops, in_each_other) {
  for (const cleave::grid& g : grids())
    for (const std::int64_t rows : {std::int64_t{12}, large(g)}) {
      X x(g, {rows, 10}), y(g, {rows, 10}), z(g, {rows, 10}), once(g, {rows, 10});
      support::fill(x, 0.4);
      for (const int outer : {1, 2, 3, 4})
        for (const int inner : {1, 2, 3}) {
          y.fill(7);
          y = nested(x, outer, inner);
          z = 1 * x;
          for (int k = 0; k < outer; ++k) {
            once = many_steps(z, inner);
            z = after_the_inner(z, once);
          }
          EXPECT_EQ(y.to_global(), z.to_global()) << outer << " times " << inner;
        }
    }
}

// What is carried on is computed before the loop, or is carried itself: it stays where it is.
constexpr cleave::function carries_what_stays([](auto a, auto b, auto times) {
  const auto before = sin(b) + shift(b, batch, 1);
  const auto [old, same] = repeat_times(times, std::tuple(a, b), [=](auto state) {
    const auto [x, y] = state;
    return std::tuple(b, x + shift(x, batch, 1));
  });
  const auto [start, sum_of_all] = repeat_times(times, std::tuple(a, b), [](auto state) {
    const auto [x, y] = state;
    return std::tuple(zeros_like(x), y + shift(x, batch, 1));
  });
  const auto [made, folded] = repeat_times(times, std::tuple(a, b), [=](auto state) {
    const auto [x, y] = state;
    return std::tuple(before, 0.5 * y + shift(before, embed, 1));
  });
  const auto [both, alike] = repeat_times(times, std::tuple(a, b), [=](auto state) {
    const auto [x, y] = state;
    const auto next = shift(x, batch, 1) + 0.5 * y;
    return std::tuple(next, next);
  });
  const auto inner = repeat_times(times, a, [=](auto x) {
    const auto outside = x + 1.0;
    const auto [p, q] = repeat_times(times, std::tuple(x, b), [=](auto state) {
      const auto [v, w] = state;
      return std::tuple(outside, v + 0.5 * w);
    });
    return 0.5 * p + 0.25 * q;
  });
  return std::tuple(old, same, start, sum_of_all, made, folded, both, alike, inner);
});
constexpr cleave::function exchanged([](auto a, auto b, auto times) {
  return repeat_times(times, std::tuple(a, b), [=](auto state) {
    const auto [x, y] = state;
    return std::tuple(b, x);
  });
});
TEST(loops, that_carry_what_stays) {
  for (const cleave::grid& g : grids()) {
    const auto run = [&](std::int64_t rows, int times, const auto& check) {
      X a(g, {rows, 10}), b(g, {rows, 10});
      support::fill(a, 0.4);
      support::fill(b, 0.9);
      cleave::tensor_in<std::int32_t, mesh()> count(g, {});
      count.fill(times);
      std::array<X, 9> r;
      for (X& x : r) x = X(g, {rows, 10});
      check(a, b, count, r);
      support::check(exchanged, std::tie(r[0], r[1]), a, b, count);
    };
    for (const int times : {0, 1, 2, 3, 4})
      run(7, times, [](const X& a, const X& b, const auto& count, std::array<X, 9>& r) {
        std::apply([&](auto&... all) { support::check(carries_what_stays, std::tie(all...), a, b, count); }, r);
      });
    run(large(g), 3, [](const auto&...) {});
  }
}

/// The predicate is what the iteration before had: a carried value under another name.
constexpr cleave::function ends_late([](auto x) {
  return repeat_until_reported(
      std::tuple(x, false, false),
      [](auto s) {
        auto [v, now, before] = s;
        return std::tuple(v + 1, v >= 3, now);
      },
      [](auto s) { return std::get<2>(s); }, 10);
});
constexpr cleave::function late_value([](auto x) { return std::get<0>(ends_late(x).first); });
constexpr cleave::function late_count([](auto x) { return ends_late(x).second.iterations; });
TEST(loops, whose_predicate_is_carried) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  cleave::tensor<double, mesh()> x(g, {}), last(g, {});
  cleave::tensor<int, mesh()> iterations(g, {});
  last = late_value(x);
  iterations = late_count(x);
  EXPECT_EQ(last.item(), 5);
  EXPECT_EQ(iterations.item(), 5);
}

// Numbers in a carry: counters, an integer and a double, also within each other, and a carry that is a number alone.
constexpr cleave::function counted([](auto x) {
  return std::tuple(repeat_times(5, std::tuple(x, std::pair(0, 1.5)),
                                 [](auto state) {
                                   const auto [v, numbers] = state;
                                   return std::tuple(v * numbers.second, std::pair(numbers.first + 1, numbers.second));
                                 }),
                    repeat_until(
                        std::tuple(x, std::int64_t{7}),
                        [](auto s) { return std::tuple(0.5 * std::get<0>(s), std::get<1>(s) - 2); },
                        [](auto s) { return std::get<1>(s) <= 2; }, 10),
                    repeat_until_reported(
                        std::tuple(0, x), [](auto s) { return std::tuple(std::get<0>(s) + 3, std::get<1>(s)); },
                        [](auto s) { return std::get<0>(s) > 100; }, 4)
                        .first,
                    scan(batch, 0.0, x, [](auto total, auto row) { return 0.5 * total + sum(row); }));
});
TEST(loops, that_carry_numbers) {
  using Whole = cleave::tensor<std::int32_t, mesh()>;
  using Long = cleave::tensor<std::int64_t, mesh()>;
  for (const cleave::grid& g : grids()) {
    X x(g, {5, 3}), a(g, {5, 3}), b(g, {5, 3}), c(g, {5, 3});
    Whole fives(g, {}), threes(g, {});
    Long steps(g, {});
    f64<mesh()> factor(g, {}), total(g, {});
    x.fill(64);
    counted(x).into(a, fives, factor, b, steps, threes, c, total);
    EXPECT_EQ(a.to_global().front(), 64 * 1.5 * 1.5 * 1.5 * 1.5 * 1.5);
    EXPECT_EQ(fives.item(), 5);
    EXPECT_EQ(factor.item(), 1.5);
    EXPECT_EQ(b.to_global().back(), 8);
    EXPECT_EQ(steps.item(), 1);
    EXPECT_EQ(threes.item(), 12);
    EXPECT_EQ(c.to_global().back(), 64);
    EXPECT_EQ(total.item(), 192 * (1 + 0.5 + 0.25 + 0.125 + 0.0625));
  }
}

// A tensor that is updated in place by a loop that reads it.
TEST(loops, into_their_own_argument) {
  for (const cleave::grid& g : grids()) {
    X x(g, {8, 4}), y(g, {8, 4});
    W1 w1(g, {3, 4, 8});
    W2 w2(g, {3, 8, 4});
    f64<mesh(layer, batch / ax)> means(g, {3, 8});
    support::fill(x, 0.1);
    support::fill(w1, 0.2);
    support::fill(w2, 0.3);
    residual(x, w1, w2).into(y, means);
    residual(x, w1, w2).into(x, means);
    EXPECT_EQ(x.to_global(), y.to_global());
  }
}

// Both branches, and what is behind them, need whole columns: for the fewest bytes all rows are moved once, before.
constexpr cleave::function of_columns([](auto x, auto chosen) {
  return sort(
      cond(chosen > 0.0, [](auto v) { return sort(v, batch); }, [](auto v) { return flip(v, batch); }, x), batch);
});
TEST(loops, whose_branches_read_what_is_moved_before_them) {
  constexpr auto least = cleave::with(of_columns, cleave::fewest_bytes<>{});
  using In = f64<mesh(batch / ax, embed)>;
  using Out = f64<mesh(batch, embed / ax)>;
  using Number = f64<mesh()>;
  constexpr auto plan = cleave::plan<Out(In, Number)>(least);
  static_assert(plan.count(cleave::kind::all_to_all) == 1 && plan.collectives() == 1);
  for (const cleave::grid& g : grids()) {
    In x(g, {9, 5});
    Out y(g, {9, 5});
    Number chosen(g, Number::extents_type{});
    support::fill(x, 0.6);
    for (const double sign : {-1.0, 1.0}) {
      chosen.fill(sign);
      support::check(least, std::tie(y), x, chosen);
    }
  }
}

} // namespace CLEAVE_SOURCE
