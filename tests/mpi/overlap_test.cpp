// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../network/network.hpp"
#include "check_function.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

// Moves that go on while products are computed: values as the evaluator computes them, and bit by bit those of the same
// steps one after the other; bytes as the plan says; memory; and communication hidden, on a slow network.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"d0"> d0;
inline constexpr cleave::dim<"d1"> d1;
inline constexpr cleave::dim<"d2"> d2;
inline constexpr cleave::dim<"d3"> d3;

using cleave::kind;
constexpr auto on_data = std::tuple(cleave::expect<data, 4>{}, cleave::expect<model, 1>{});

/// How a grid is made: whether what is in flight goes on, and the ranks of a node; 0: MPI alone.
struct transport {
  bool overlap;
  int node;

  cleave::grid grid(const std::vector<std::int64_t>& sizes) const {
    const auto mode = cleave::comm::transport_mode();
    const int ranks = cleave::comm::node_ranks();
    const bool before = cleave::comm::overlap_mode();
    cleave::comm::overlap_mode() = overlap;
    if (node == 0) cleave::comm::transport_mode() = cleave::comm::transport::mpi;
    else cleave::comm::node_ranks() = node;
    cleave::grid made(mesh, MPI_COMM_WORLD, sizes);
    // Communicators of nodes are made when a group is first asked for.
    made.state().group_of(cleave::axis_set(3u));
    cleave::comm::overlap_mode() = before;
    cleave::comm::transport_mode() = mode;
    cleave::comm::node_ranks() = ranks;
    return made;
  }
};
/// Calls f(grid on which moves go on, the same grid where they do not) for nodes of several sizes.
template <class F>
void on_all(const F& f) {
  for (int node : {0, 1, 2, 3})
    for (const auto& sizes : support::factorings(support::ranks(), 2)) {
      SCOPED_TRACE("nodes of " + std::to_string(node) + ", " + std::to_string(sizes[0]) + " x " +
                   std::to_string(sizes[1]));
      f(transport{true, node}.grid(sizes), transport{false, node}.grid(sizes));
    }
}
template <class Plan>
constexpr int in_flight(const Plan& plan, kind move) {
  int n = 0;
  for (const cleave::step& s : plan.view().steps) n += s.in_flight && s.move == move ? 1 : 0;
  return n;
}

template <class Tensor>
bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = support::elements(a), y = support::elements(b);
  // A device may have no elements, and memcmp takes no null pointer.
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0);
}

// Gradients of replicated weights: each is reduced while those of the layers before it are computed.
template <class T>
struct replicated {
  using number = cleave::tensor<T, mesh()>;
  using first = cleave::tensor<T, mesh(d0, d1)>;
  using second = cleave::tensor<T, mesh(d1, d2)>;
  using third = cleave::tensor<T, mesh(d2, d3)>;
  using bias = cleave::tensor<T, mesh(d1)>;
  using input = cleave::tensor<T, mesh(batch / data, d0)>;
};
constexpr cleave::function loss([](auto w1, auto w2, auto w3, auto b, auto x) {
  const auto h = tanh(dot(x, w1, d0) + b);
  return cleave::mean(pow(dot(tanh(dot(h, w2, d1)), w3, d2), 2));
});
constexpr cleave::function train =
    cleave::with(cleave::function([](auto w1, auto w2, auto w3, auto b, auto x) {
                   const auto [l, g] = cleave::value_and_grad<0, 1, 2, 3>(loss)(w1, w2, w3, b, x);
                   const auto [g1, g2, g3, gb] = g;
                   return std::tuple(w1 - 0.1 * g1, w2 - 0.1 * g2, w3 - 0.1 * g3, b - 0.1 * gb, l);
                 }),
                 cleave::expect<data, 4>{}, cleave::expect<model, 1>{});
template <class T, class F>
constexpr auto plan_of_training(const F& f) {
  using r = replicated<T>;
  return cleave::plan<
      std::tuple<typename r::first, typename r::second, typename r::third, typename r::bias, typename r::number>(
          typename r::first, typename r::second, typename r::third, typename r::bias, typename r::input)>(f);
}
constexpr auto training = plan_of_training<float>(train);
static_assert(in_flight(training, kind::all_reduce) == 5);
static_assert(training.count(kind::all_reduce) == 5);
// The gradient of the last layer begins before those of the layers before it are computed, and ends before its update.
constexpr bool begins_early() {
  int products_before = 0, products = 0;
  bool first = true;
  for (const cleave::step& s : training.view().steps) {
    products += s.kind == cleave::step_kind::gemm ? 1 : 0;
    if (s.in_flight && first) products_before = products, first = false;
  }
  return products_before < products;
}
static_assert(begins_early());
constexpr auto one_by_one = plan_of_training<float>(cleave::with(train, cleave::without_overlap{}));
static_assert(in_flight(one_by_one, kind::all_reduce) == 0 && one_by_one.bytes() == training.bytes());

template <class T>
struct training_step {
  using r = replicated<T>;
  typename r::first w1, v1;
  typename r::second w2, v2;
  typename r::third w3, v3;
  typename r::bias b, c;
  typename r::input x;
  typename r::number l;

  training_step(const cleave::grid& g, std::int64_t n)
      : w1(g, {n, n + 3}), v1(g, {n, n + 3}), w2(g, {n + 3, 5}), v2(g, {n + 3, 5}), w3(g, {5, 2 * n}),
        v3(g, {5, 2 * n}), b(g, {n + 3}), c(g, {n + 3}), x(g, {2 * n + 1, n}), l(g, {}) {
    support::fill(w1, 0.3), support::fill(w2, 0.5), support::fill(w3, 0.7), support::fill(b, 0.9);
    support::fill(x, 1.1);
  }
  void run() { train(w1, w2, w3, b, x).into(v1, v2, v3, c, l); }
  bool same(const training_step& other) const {
    return same_bits(v1, other.v1) && same_bits(v2, other.v2) && same_bits(v3, other.v3) && same_bits(c, other.c) &&
           same_bits(l, other.l);
  }
};
template <class T>
void check_training(double tolerance, std::int64_t n) {
  on_all([&](const cleave::grid& on, const cleave::grid& off) {
    training_step<T> a(on, n), b(off, n);
    a.run(), b.run();
    EXPECT_TRUE(a.same(b));
    a.run();
    EXPECT_TRUE(a.same(b));
    support::check(train, std::tie(a.v1, a.v2, a.v3, a.c, a.l), tolerance, a.w1, a.w2, a.w3, a.b, a.x);
  });
}
TEST(overlap, of_gradients) {
  check_training<double>(1e-12, 7);
  check_training<float>(1e-4, 12);
}
TEST(overlap, of_gradients_that_travel_alone) {
  // Above the length that shares a message.
  check_training<double>(1e-11, 200);
}

// Weights that are sharded, in a type whose products do not go on in pieces: gathered while others are computed, and
// reduced and scattered.
template <class T>
struct sharded {
  using first = cleave::tensor<T, mesh(d0 / data, d1)>;
  using second = cleave::tensor<T, mesh(d1 / data, d2)>;
  using third = cleave::tensor<T, mesh(d2 / data, d3)>;
  using input = cleave::tensor<T, mesh(batch / data, d0)>;
};
constexpr cleave::function sharded_loss([](auto w1, auto w2, auto w3, auto x) {
  return sum(pow(dot(tanh(dot(tanh(dot(x, w1, d0)), w2, d1)), w3, d2), 2));
});
constexpr cleave::function sharded_slope = cleave::with(cleave::grad<0, 1, 2>(sharded_loss), cleave::expect<data, 4>{},
                                                        cleave::expect<model, 1>{});
using s16 = sharded<cleave::bfloat16>;
constexpr auto sharded_plan =
    cleave::plan<std::tuple<s16::first, s16::second, s16::third>(s16::first, s16::second, s16::third, s16::input)>(
        sharded_slope);
static_assert(in_flight(sharded_plan, kind::all_gather) > 0);
static_assert(in_flight(sharded_plan, kind::reduce_scatter) > 0);

TEST(overlap, of_sharded_weights) {
  for (const std::int64_t n : {8, 13, 3})
    on_all([&](const cleave::grid& on, const cleave::grid& off) {
      const auto run = [&](const cleave::grid& g) {
        s16::first w1(g, {n, n + 3}), v1(g, {n, n + 3});
        s16::second w2(g, {n + 3, 5}), v2(g, {n + 3, 5});
        s16::third w3(g, {5, 2 * n}), v3(g, {5, 2 * n});
        s16::input x(g, {2 * n + 1, n});
        support::fill(w1, 0.3), support::fill(w2, 0.5), support::fill(w3, 0.7), support::fill(x, 1.1);
        for (int i = 0; i < 2; ++i) sharded_slope(w1, w2, w3, x).into(v1, v2, v3);
        support::check(sharded_slope, std::tie(v1, v2, v3), 0.2, w1, w2, w3, x);
        sharded_slope(w1, w2, w3, x).into(v1, v2, v3);
        return std::tuple(v1, v2, v3);
      };
      const auto a = run(on), b = run(off);
      EXPECT_TRUE(same_bits(std::get<0>(a), std::get<0>(b)));
      EXPECT_TRUE(same_bits(std::get<1>(a), std::get<1>(b)));
      EXPECT_TRUE(same_bits(std::get<2>(a), std::get<2>(b)));
    });
}

// A value that changes its layout while a product is computed that does not need it.
using rows = cleave::tensor<double, mesh(batch / data, d1)>;
using columns = cleave::tensor<double, mesh(batch, d1 / data)>;
using left = cleave::tensor<double, mesh(batch / data, d0)>;
using right = cleave::tensor<double, mesh(d0, d1)>;
using turned = cleave::tensor<double, mesh(d1 / data, batch)>;
constexpr cleave::function turns = cleave::with(cleave::function([](auto a, auto b, auto c) {
                                                  return std::tuple(dot(a, b, d0),
                                                                    cleave::reshard(2 * c, mesh(batch, d1 / data)));
                                                }),
                                                cleave::expect<data, 4>{}, cleave::expect<model, 1>{});
constexpr auto turning = cleave::plan<std::tuple<rows, columns>(left, right, rows)>(turns);

TEST(overlap, of_other_layouts) {
  for (const std::int64_t n : {8, 13, 3})
    on_all([&](const cleave::grid& on, const cleave::grid& off) {
      const auto run = [&](const cleave::grid& g) {
        left a(g, {2 * n, n});
        right b(g, {n, n + 5});
        rows c(g, {2 * n, n + 5}), r(g, {2 * n, n + 5});
        columns s(g, {2 * n, n + 5});
        support::fill(a, 0.3), support::fill(b, 0.5), support::fill(c, 0.7);
        support::check(turns, std::tie(r, s), 1e-12, a, b, c);
        turns(a, b, c).into(r, s);
        return std::tuple(r, s);
      };
      const auto a = run(on), b = run(off);
      EXPECT_TRUE(same_bits(std::get<0>(a), std::get<0>(b)));
      EXPECT_TRUE(same_bits(std::get<1>(a), std::get<1>(b)));
    });
}

TEST(overlap, moves_what_the_plan_says) {
  on_all([&](const cleave::grid& on, const cleave::grid&) {
    for (const std::int64_t n : {16, 320}) {
      training_step<float> a(on, n);
      a.run();
      support::reset_charges();
      a.run();
      // Collectives are messages now, unless a node has them all.
      const bool travels = cleave::on_host && !cleave::comm::is_direct(on.state().group_of(cleave::axis_bit(0))) &&
                           on.size(data) > 1;
      EXPECT_EQ(support::sent_messages() != 0, travels);
      const std::int64_t moved = support::over_ranks(support::charged_bytes());
      const std::int64_t said = training.bytes(
          {d0 = n, d1 = n + 3, d2 = 5, d3 = 2 * n, batch = 2 * n + 1, data = on.size(data), model = on.size(model)});
      // Each of five all-reduces is rounded by itself, those of one message together.
      EXPECT_LE(std::abs(moved - said), 5);
    }
  });
}

TEST(overlap, warm_calls_allocate_nothing) {
  if (!support::heap_is_left_alone) return;
  on_all([&](const cleave::grid& on, const cleave::grid&) {
    training_step<double> a(on, 9);
    for (int i = 0; i < 2; ++i) a.run();
    const support::heap_count heap;
    a.run();
    EXPECT_EQ(heap(), 0);
  });
}

TEST(overlap, in_checked_mode) {
  on_all([&](cleave::grid on, const cleave::grid& off) {
    training_step<double> a(on, 9), b(off, 9);
    b.run();
    on.check({true, true, 8});
    a.run();
    EXPECT_TRUE(a.same(b));
  });
}

// What is under way is not searched before it has arrived, late here: until then a result has what the caller had.
TEST(overlap, is_not_searched_for_nan_before_it_is_over) {
  const std::int64_t n = 13;
  cleave::grid g = transport{true, 0}.grid({support::ranks(), 1});
  s16::first w1(g, {n, n + 3}), v1(g, {n, n + 3});
  s16::second w2(g, {n + 3, 5}), v2(g, {n + 3, 5});
  s16::third w3(g, {5, 2 * n}), v3(g, {5, 2 * n});
  s16::input x(g, {2 * n + 1, n});
  support::fill(w1, 0.3), support::fill(w2, 0.5), support::fill(w3, 0.7), support::fill(x, 1.1);
  const auto nan = static_cast<cleave::bfloat16>(std::numeric_limits<float>::quiet_NaN());
  v1.fill(nan), v2.fill(nan), v3.fill(nan);
  g.check({true, true, 8});
  MPI_Barrier(MPI_COMM_WORLD);
  network::simulated() = {5e-3, 1e9};
  EXPECT_NO_THROW(sharded_slope(w1, w2, w3, x).into(v1, v2, v3));
  MPI_Barrier(MPI_COMM_WORLD);
  network::simulated() = {};
  for (const auto v : v1.to_global()) EXPECT_FALSE(std::isnan(static_cast<float>(v)));
}

/// The seconds of a call of the slower rank: the median of some.
template <class F>
double seconds_of(F&& f) {
  std::vector<double> all;
  for (int i = 0; i < 5; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    f();
    double seconds = MPI_Wtime() - start;
    PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    all.push_back(seconds);
  }
  std::sort(all.begin(), all.end());
  return all[2];
}
// On a network on which the gradients take about as long as a third of the step computes, part of that is hidden. A
// busy machine makes all of it slower, so that much less is asked for than bench/overlap_time.cpp measures.
constexpr cleave::function deep_loss([](auto w1, auto w2, auto w3, auto x) {
  return cleave::mean(pow(dot(tanh(dot(tanh(dot(x, w1, d0)), w2, d1)), w3, d2), 2));
});
constexpr cleave::function deep_slope = cleave::with(cleave::grad<0, 1, 2>(deep_loss), cleave::expect<data, 4>{},
                                                     cleave::expect<model, 1>{});
TEST(overlap, hides_gradients_behind_products) {
  if (support::ranks() != 2) return;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers slow messages down more than products";
#endif
  if constexpr (!cleave::on_host) GTEST_SKIP() << "a device has these products before there is anything to hide";
  using r = replicated<float>;
  const std::int64_t n = 512;
  const auto on = [&](bool overlap) {
    const cleave::grid g = transport{overlap, 0}.grid({2, 1});
    r::first w1(g, {n, n}), v1(g, {n, n});
    r::second w2(g, {n, n}), v2(g, {n, n});
    r::third w3(g, {n, n}), v3(g, {n, n});
    r::input x(g, {4 * n, n});
    support::fill(w1, 0.3), support::fill(w2, 0.5), support::fill(w3, 0.7), support::fill(x, 1.1);
    deep_slope(w1, w2, w3, x).into(v1, v2, v3);
    return [=]() mutable { deep_slope(w1, w2, w3, x).into(v1, v2, v3); };
  };
  auto apart = on(false);
  auto together = on(true);
  const double slow = std::max(seconds_of(apart) / 3, 5e-3), bytes = 3 * static_cast<double>(n * n) * 4;
  network::simulated() = {20e-6, bytes / slow};
  // Others on the machine may slow one of them alone: the best of a few attempts counts.
  double one_by_one = seconds_of(apart), at_once = seconds_of(together);
  for (int attempt = 0; attempt < 20 && one_by_one - at_once < 0.2 * slow; ++attempt) {
    one_by_one = std::min(one_by_one, seconds_of(apart));
    at_once = std::min(at_once, seconds_of(together));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  network::simulated() = {};
  EXPECT_GE(one_by_one - at_once, 0.2 * slow)
      << one_by_one << " s one after the other, " << at_once << " s together, of which " << slow << " s are messages";
}

// The gradient of a root of 0 is a NaN, which checked mode finds while a gradient of the layer behind it is reduced.
constexpr cleave::function root_loss([](auto w1, auto w2, auto x) {
  return sum(pow(dot(sqrt(dot(x, w1, d0)), w2, d1), 2));
});
constexpr cleave::function root_slope = cleave::with(cleave::grad<0, 1>(root_loss), cleave::expect<data, 4>{},
                                                     cleave::expect<model, 1>{});
using r64 = replicated<double>;
static_assert(
    in_flight(cleave::plan<std::tuple<r64::first, r64::second>(r64::first, r64::second, r64::input)>(root_slope),
              kind::all_reduce) == 2);
TEST(overlap, is_over_after_an_exception) {
  on_all([&](cleave::grid on, const cleave::grid& off) {
    const auto positive = [](const auto& at) { return 0.5 + 0.1 * std::sin(double(at[0] + 2 * at[1])); };
    const auto run = [&](const cleave::grid& g, bool fails) {
      r64::first w1(g, {9, 8}), v1(g, {9, 8});
      r64::second w2(g, {8, 5}), v2(g, {8, 5});
      r64::input x(g, {11, 9});
      w1.fill_by(positive), w2.fill_by(positive);
      if (fails) {
        on.check({true, true, 8});
        EXPECT_THROW(root_slope(w1, w2, x).into(v1, v2), cleave::nan_error);
        on.check({});
      }
      x.fill_by(positive);
      root_slope(w1, w2, x).into(v1, v2);
      return std::pair(v1, v2);
    };
    const auto a = run(on, true), b = run(off, false);
    EXPECT_TRUE(same_bits(a.first, b.first) && same_bits(a.second, b.second));
  });
}

TEST(overlap, fails_with_mpi) {
  // Nothing is left open that MPI would write to.
  for (int calls = 1; calls < 4; ++calls) {
    const cleave::grid g = transport{true, 1}.grid({support::ranks(), 1});
    if (support::ranks() == 1) return;
    training_step<double> a(g, 9);
    a.run();
    MPI_Barrier(MPI_COMM_WORLD);
    support::fail_calls(calls);
    EXPECT_THROW(a.run(), cleave::mpi_error);
    support::fail_calls(0);
    EXPECT_THROW(a.run(), cleave::mpi_error);
  }
}

} // namespace CLEAVE_SOURCE
