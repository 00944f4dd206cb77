// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/loader.hpp>
#include <cleave/nn/initial_values.hpp>
#include <cleave/optim/stopping.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

// The surroundings of a training: batches of records, initial values, and its end.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"in"> in;
inline constexpr cleave::dim<"out"> out;
using Rows = cleave::tensor<std::int64_t, mesh(batch / ax)>;

/// The records of some batches from a position on, read ahead or not.
std::vector<std::int64_t> records(const cleave::grid& g, std::int64_t rows, std::int64_t count, std::int64_t batches,
                                  cleave::io::data_position at, const cleave::io::loader_options& o = {}) {
  Rows t(g, {rows});
  cleave::io::loader<std::int64_t> data(t, batch, count, [](std::int64_t i) { return 10 * i; }, o);
  std::vector<std::int64_t> all;
  for (std::int64_t b = 0; b < batches; ++b) {
    const auto loaded = data.next(at);
    t.fill_by([&](const auto& i) { return loaded[i[0]]; });
    const std::vector<std::int64_t> whole = t.to_global();
    all.insert(all.end(), whole.begin(), whole.end());
  }
  return all;
}

TEST(training, every_record_comes_once_in_an_epoch) {
  for (const std::int64_t count : {1, 2, 3, 5, 17, 64, 1000}) {
    std::vector<std::int64_t> order, later;
    for (std::int64_t i = 0; i < count; ++i) {
      order.push_back(cleave::io::detail::shuffled(i, count, 3, 0));
      later.push_back(cleave::io::detail::shuffled(i, count, 3, 1));
    }
    EXPECT_TRUE(count < 17 || order != later);
    EXPECT_TRUE(count < 17 || !std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}
TEST(training, all_meshes_see_the_same_batches) {
  std::vector<std::int64_t> want; // two epochs of 3 batches of 5 of 17 records
  for (std::int64_t epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < 15; ++i)
      want.push_back(10 * cleave::io::detail::shuffled(i, 17, 9, static_cast<std::uint64_t>(epoch)));
  for (const cleave::grid& g : support::grids(mesh)) {
    EXPECT_EQ(records(g, 5, 17, 6, {9, 0}), want);
    EXPECT_EQ(records(g, 5, 17, 6, {9, 0}, {true, 0}), want);
    // As after a restore.
    EXPECT_EQ(records(g, 5, 17, 2, {9, 4}), std::vector<std::int64_t>(want.begin() + 20, want.end()));
    EXPECT_EQ(records(g, 2, 4, 3, {9, 0}, {false, 2}), (std::vector<std::int64_t>{0, 10, 20, 30, 0, 10}));
  }
}
TEST(training, a_position_may_change) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const Rows t(g, {4});
  cleave::io::loader<std::int64_t> data(t, batch, 8, [](std::int64_t i) { return i; }, {false, 3});
  const std::int64_t first = t.offset()[0];
  cleave::io::data_position at;
  for (const std::int64_t next : {0, 1, 2, 1, 5, 4}) {
    at.next = next;
    const auto rows = data.next(at);
    EXPECT_EQ(at.next, next + 1);
    for (std::int64_t i = first; i < first + t.local_extents()[0]; ++i) EXPECT_EQ(rows[i], next % 2 * 4 + i);
  }
  EXPECT_EQ(data.batches(), 2);
  EXPECT_EQ(data.epoch(at), 2);
}
TEST(training, batches_are_read_ahead) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {1, support::ranks()});
  const Rows t(g, {2});
  std::atomic<std::int64_t> reads = 0;
  cleave::io::loader<int> data(t, batch, 100, [&](std::int64_t) { return static_cast<int>(++reads); }, {true, 3});
  cleave::io::data_position at;
  static_cast<void>(data.next(at));
  // No test waits for ever, and no other limit of time is given.
  for (int i = 0; i < 5000 && reads < 8; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(reads, 8); // the one that was taken, and three more
}
TEST(training, a_record_that_cannot_be_read_is_an_error_on_all_ranks) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const Rows t(g, {8});
  for (const std::int64_t ahead : {0, 2}) {
    bool broken = true;
    cleave::io::loader<int> data(t, batch, 8,
                                 [&](std::int64_t i) {
                                   if (i == 7 && broken) throw cleave::file_error("record 7 is torn");
                                   return 1;
                                 },
                                 {true, ahead});
    cleave::io::data_position at;
    EXPECT_THROW(static_cast<void>(data.next(at)), cleave::file_error);
    EXPECT_EQ(at.next, 0);
    if (ahead > 0) continue; // the thread may have read `broken` already
    broken = false;
    EXPECT_NO_THROW(static_cast<void>(data.next(at)));
  }
  EXPECT_THROW((cleave::io::loader<int>(t, batch, 7, [](std::int64_t) { return 1; })), cleave::shape_error);
}

template <template <class, auto> class Tensor = cleave::tensor>
struct weights {
  struct {
    Tensor<double, mesh(in / ax, out / ay)> kernel;
    Tensor<double, mesh(out / ax)> bias;
  } layer;
  Tensor<float, mesh(in, out / ax / ay)> even;
};
TEST(training, initial_values_do_not_depend_on_the_mesh) {
  namespace nn = cleave::nn;
  std::vector<double> first;
  for (const cleave::grid& g : support::grids(mesh)) {
    auto w = nn::make_parameters<weights<>>(g, {in = 200, out = 50});
    nn::initialise(w, 7, {{"*.bias", nn::ones}, {"layer.*", nn::he_normal(out)}, {"*", nn::uniform_values()}});
    const std::vector<double> kernel = w.layer.kernel.to_global();
    if (first.empty()) first = kernel;
    EXPECT_EQ(kernel, first);
    EXPECT_EQ(w.layer.bias.to_global(), std::vector<double>(50, 1.0));
    const auto deviation = [](const auto& all) {
      double squares = 0;
      for (const auto x : all) squares += static_cast<double>(x) * static_cast<double>(x);
      return std::sqrt(squares / static_cast<double>(all.size()));
    };
    EXPECT_NEAR(deviation(kernel), 0.1, 0.003);
    const std::vector<float> even = w.even.to_global();
    EXPECT_NEAR(deviation(even), std::sqrt(1.0 / 600), 0.001);
    EXPECT_LE(*std::max_element(even.begin(), even.end()), std::sqrt(1.0F / 200));
    EXPECT_THROW(nn::initialise(w, 7, {{"layer.*", nn::zeros}}), cleave::shape_error);
  }
}

TEST(training, ends_after_some_evaluations_without_a_gain) {
  cleave::optim::early_stopping s;
  const cleave::optim::stopping_options o{2, 0.1};
  EXPECT_TRUE(s.is_best(3, 10, o));
  EXPECT_FALSE(s.is_best(2.95, 20, o)); // not by enough
  EXPECT_TRUE(s.is_best(2.8, 30, o));
  EXPECT_FALSE(s.is_best(std::numeric_limits<double>::quiet_NaN(), 40, o));
  EXPECT_FALSE(s.stops(o));
  EXPECT_FALSE(s.is_best(2.8, 50, o));
  EXPECT_TRUE(s.stops(o));
  EXPECT_EQ(s.best_step, 30);
  cleave::optim::running_mean m;
  EXPECT_TRUE(std::isnan(m.mean()));
  m.add(1, 3);
  m.add(5);
  EXPECT_EQ(m.mean(), 2);
}

} // namespace CLEAVE_SOURCE
