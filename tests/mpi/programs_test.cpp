// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include "../../examples/digits_data.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

// Functions and statements on tensors: the same on every mesh as on one device, and moving what the plan says.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"key"> key;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using X = f64<mesh(batch / data, embed)>;
using Up = f64<mesh(embed, hidden / model)>;
using Down = f64<mesh(hidden / model, embed)>;

constexpr cleave::function mlp([](auto x, auto up, auto down) {
  return dot(gelu(dot(x, up, embed)), down, hidden) + x;
});
constexpr auto mlp_plan = cleave::plan<X(X, Up, Down)>(mlp);

/// A smooth function of the position, different along every dim.
template <class At>
double wave(const At& at, double scale) {
  double sum = 0.3;
  for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
  return scale * std::sin(sum);
}

/// Meshes of two axes over all ranks, and with one device: the reference, on every rank for itself.
std::vector<cleave::grid> grids() { return support::grids(mesh); }
cleave::grid alone() { return {mesh, MPI_COMM_SELF, {1, 1}}; }

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, double tolerance,
                 const char* what) {
  EXPECT_EQ(got.size(), wanted.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < std::min(got.size(), wanted.size()); ++i)
    worst = std::max(worst, std::fabs(got[i] - wanted[i]) / (1 + std::fabs(wanted[i])));
  EXPECT_LE(worst, tolerance) << what;
}

std::vector<double> run_mlp(const cleave::grid& grid, std::int64_t b, std::int64_t e, std::int64_t h) {
  X x(grid, {b, e}), y(grid, {b, e});
  Up up(grid, {e, h});
  Down down(grid, {h, e});
  x.fill_by([](const auto& at) { return wave(at, 1.0); });
  up.fill_by([](const auto& at) { return wave(at, 0.5); });
  down.fill_by([](const auto& at) { return wave(at, 0.25); });
  y = mlp(x, up, down);
  return y.to_global();
}

TEST(programs, mlp_is_the_same_on_every_mesh) {
  const std::array<std::int64_t, 3> shapes[] = {{8, 16, 24}, {7, 5, 9}, {1, 3, 2}, {0, 4, 4},
                                                {5, 0, 3},   {3, 4, 0}, {24, 1, 8}};
  for (const auto& [b, e, h] : shapes) {
    const auto wanted = run_mlp(alone(), b, e, h);
    for (const cleave::grid& g : grids()) expect_near(run_mlp(g, b, e, h), wanted, 1e-13, "mlp");
  }
}

/// What the busiest rank was charged while f ran.
template <class F>
std::int64_t charged(F&& f) {
  support::reset_charges();
  f();
  return support::over_ranks(support::charged_bytes());
}

TEST(programs, mpi_moves_what_the_plan_says) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t d = g.size(data), m = g.size(model);
    X x(g, {16, 24}), y(g, {16, 24});
    Up up(g, {24, 48});
    Down down(g, {48, 24});
    y = mlp(x, up, down);
    const std::int64_t priced = mlp_plan.bytes({data = d, model = m, batch = 16, embed = 24, hidden = 48});
    EXPECT_EQ(charged([&] { y = mlp(x, up, down); }), priced) << d << "x" << m;
  }
}

TEST(programs, training_moves_what_the_plan_says) {
  using types = digits::of<double>;
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const cleave::grid g(digits::mesh, MPI_COMM_WORLD, sizes);
    auto s = digits::start<double>(g, 48);
    types::Images images(g, {48, 64});
    types::Labels labels(g, {48});
    types::Scalar loss(g, {});
    const auto step = [&] {
      types::train(s.weights, s.momentum, images, labels, 0.1).into(s.weights, s.momentum, loss);
    };
    step();
    const std::int64_t priced = types::train_plan.bytes(
        {digits::data = sizes[0], digits::model = sizes[1], digits::batch = 48, digits::hidden = 48});
    // The sum of each rank's calls; a plan sums each step's busiest rank, which for even blocks is any of them. Small
    // all-reduces travel as one, whose bytes are rounded down once.
    const std::int64_t moved = charged(step);
    EXPECT_GE(moved, priced) << sizes[0] << "x" << sizes[1];
    EXPECT_LT(moved, priced + types::train_plan.count(cleave::kind::all_reduce)) << sizes[0] << "x" << sizes[1];
  }
}

/// The losses of the first epochs of the digits classifier.
template <class Real>
std::vector<double> losses(const cleave::grid& grid, const std::vector<digits::image>& rows, int epochs) {
  using types = digits::of<Real>;
  auto s = digits::start<Real>(grid, 40);
  const auto batches = digits::batches<Real>(grid, rows, 8);
  typename types::Scalar loss(grid, {});
  std::vector<double> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double total = 0;
    for (const auto& b : batches) {
      types::train(s.weights, s.momentum, b.images, b.labels, static_cast<Real>(0.1)).into(s.weights, s.momentum, loss);
      total += static_cast<double>(loss.item());
    }
    all.push_back(total / static_cast<double>(batches.size()));
  }
  return all;
}

TEST(programs, digits_train_alike_on_every_mesh) {
  const auto rows = digits::read("examples/data/digits.csv").training();
  const cleave::grid one(digits::mesh, MPI_COMM_SELF, {1, 1});
  const auto single = losses<float>(one, rows, 5), wide = losses<double>(one, rows, 60);
  EXPECT_LT(wide.back(), 0.02 * wide.front());
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const cleave::grid g(digits::mesh, MPI_COMM_WORLD, sizes);
    expect_near(losses<float>(g, rows, 5), single, 1e-5, "losses in float");
    expect_near(losses<double>(g, rows, 60), wide, 1e-9, "losses in double");
  }
}

TEST(programs, statements) {
  for (const cleave::grid& g : grids()) {
    X x(g, {6, 10}), y(g, {6, 10});
    f64<mesh(embed / model)> bias(g, {10});
    f64<mesh(embed, batch / data)> turned(g, {10, 6});
    f64<mesh(batch, embed / data / model)> other(g, {6, 10});
    f64<mesh(batch / data)> rows(g, {6});
    f64<mesh()> total(g, {});
    x.fill_by([](const auto& at) { return wave(at, 1.0); });
    bias.fill_by([](const auto& at) { return wave(at, 2.0); });
    const auto wave_at = [](std::int64_t b, std::int64_t e) { return wave(std::array<std::int64_t, 2>{b, e}, 1.0); };
    const auto bias_at = [](std::int64_t e) { return wave(std::array<std::int64_t, 1>{e}, 2.0); };

    y = 2.0 * x + bias;
    turned = exp(-x);
    other = x;
    rows = max(x, embed);
    total = sum(x * x);
    const auto ys = y.to_global(), ts = turned.to_global(), os = other.to_global(), rs = rows.to_global();
    double squares = 0;
    for (std::int64_t b = 0; b < 6; ++b) {
      double largest = -10;
      for (std::int64_t e = 0; e < 10; ++e) {
        const std::size_t here = static_cast<std::size_t>(b * 10 + e);
        EXPECT_NEAR(ys[here], 2.0 * wave_at(b, e) + bias_at(e), 1e-14);
        EXPECT_NEAR(ts[static_cast<std::size_t>(e * 6 + b)], std::exp(-wave_at(b, e)), 1e-14);
        EXPECT_EQ(os[here], wave_at(b, e));
        largest = std::max(largest, wave_at(b, e));
        squares += wave_at(b, e) * wave_at(b, e);
      }
      EXPECT_EQ(rs[static_cast<std::size_t>(b)], largest);
    }
    EXPECT_NEAR(total.item(), squares, 1e-12);

    // Into itself: right, whatever the plan does in place.
    y = x;
    const f64<mesh(batch / data, embed)> handle = y.alias();
    y = softmax(y, embed) + sum(y, embed) - y;
    const auto again = handle.to_global();
    for (std::int64_t b = 0; b < 6; ++b) {
      double all = 0, exps = 0;
      for (std::int64_t e = 0; e < 10; ++e) all += wave_at(b, e), exps += std::exp(wave_at(b, e));
      for (std::int64_t e = 0; e < 10; ++e)
        EXPECT_NEAR(again[static_cast<std::size_t>(b * 10 + e)], std::exp(wave_at(b, e)) / exps + all - wave_at(b, e),
                    1e-13);
    }
  }
}

TEST(programs, attention_over_a_divided_sequence) {
  using Q = f64<mesh(batch / model, key / data, embed)>;
  constexpr cleave::function attend([](auto q) {
    auto other = rename(q, key, hidden);
    return dot(softmax(dot(q, other, embed), hidden), other, hidden);
  });
  const auto run = [&](const cleave::grid& g) {
    Q q(g, {3, 8, 5}), out(g, {3, 8, 5});
    q.fill_by([](const auto& at) { return wave(at, 1.0); });
    out = attend(q);
    return out.to_global();
  };
  const auto wanted = run(alone());
  for (const cleave::grid& g : grids()) expect_near(run(g), wanted, 1e-13, "attention");
}

TEST(programs, replicas_are_the_same_bits) {
  for (const cleave::grid& g : grids()) {
    cleave::tensor<float, mesh(batch, hidden)> y(g, {9, 7});
    cleave::tensor<float, mesh(batch, embed / data / model)> a(g, {9, 33});
    cleave::tensor<float, mesh(embed / data / model, hidden)> b(g, {33, 7});
    a.fill_by([](const auto& at) { return static_cast<float>(wave(at, 1.0)); });
    b.fill_by([](const auto& at) { return static_cast<float>(wave(at, 3.0)); });
    y = tanh(dot(a, b, embed));
    const std::vector<float> mine = support::elements(y);
    std::vector<float> first = mine;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
    EXPECT_TRUE(std::equal(mine.begin(), mine.end(), first.begin()));
  }
}

TEST(programs, splits_and_merges) {
  constexpr cleave::function shaped([](auto a, auto k) {
    const auto parts = split(a, embed, hidden, key);
    return merge(parts * (k + 1), hidden, key, embed);
  });
  for (const cleave::grid& g : grids()) {
    X x(g, {5, 12}), y(g, {5, 12});
    f64<mesh(key)> three(g, {3});
    x.fill_by([](const auto& at) { return wave(at, 1.0); });
    three.fill(1.0);
    y = shaped(x, three);
    y = 0.5 * y;
    expect_near(y.to_global(), x.to_global(), 0, "split and merge");
  }
}

TEST(programs, promised_dims_stay_divided) {
  static constexpr cleave::dim<"head", cleave::dynamic, cleave::promise::divisible> head;
  using Whole = f64<mesh(batch, embed / model)>;
  using Parts = f64<mesh(batch, head / model, key)>;
  constexpr cleave::function parted([](auto a) { return split(a, embed, head, key) * 2; });
  static_assert(cleave::plan<Parts(Whole)>(parted).collectives() == 0);
  for (const cleave::grid& g : grids()) {
    const std::int64_t m = g.size(model);
    Whole x(g, {3, m * 4});
    Parts y(g, {3, m * 2, 2});
    x.fill_by([](const auto& at) { return wave(at, 1.0); });
    y = parted(x);
    auto twice = x.to_global();
    for (double& v : twice) v *= 2;
    EXPECT_EQ(y.to_global(), twice);
    if (m > 1) {
      EXPECT_THROW(Parts(g, {3, m + 1, 2}), cleave::shape_error);
    }
  }
}

TEST(programs, errors_on_every_rank) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1}), h(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  X x(g, {4, 6}), elsewhere(h, {4, 6}), small(g, {4, 5});
  EXPECT_THROW(x = x + elsewhere, cleave::grid_error);
  EXPECT_THROW(x = x + small, cleave::shape_error);
  try {
    x = x + small;
  } catch (const cleave::shape_error& e) {
    EXPECT_NE(std::string(e.what()).find("'embed'"), std::string::npos) << e.what();
  }
  X empty;
  EXPECT_THROW(x = x + empty, cleave::grid_error);
  x = 1.0;
  EXPECT_EQ(x.to_global(), std::vector<double>(24, 1.0));
}

TEST(digits, malformed_files_are_named_with_their_line) {
  EXPECT_THROW(digits::read("no such file.csv"), std::runtime_error);
  const std::string path = "digits_" + std::to_string(support::rank()) + "_of_" + std::to_string(support::ranks()) +
                           ".csv";
  std::ofstream(path) << "1,2,3\n";
  try {
    digits::read(path);
    ADD_FAILURE() << "a short row was taken";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("line 1"), std::string::npos) << e.what();
  }
  std::remove(path.c_str());
}

} // namespace CLEAVE_SOURCE
