// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/embedding.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

// The reduction logsumexp, and sums that have one term a row.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

template <class T>
using by_rows = cleave::tensor<T, mesh(row / line, col)>;
template <class T>
using by_columns = cleave::tensor<T, mesh(row, col / line)>;
template <class T>
using column = cleave::tensor<T, mesh(row)>;
template <class T>
using number = cleave::tensor<T, mesh()>;
using partial = cleave::tensor<double, mesh(row, cleave::unreduced<cleave::reduction::logsumexp>(line))>;

constexpr double infinity = std::numeric_limits<double>::infinity();

cleave::grid grid_of_all() { return cleave::grid(mesh, MPI_COMM_WORLD, {support::ranks()}); }
/// From small to large along a row, so that larger values keep coming; some rows are large, some have infinities.
double x_at(std::int64_t i, std::int64_t j) {
  if (i % 7 == 3) return -infinity;
  if (i % 7 == 4) return j == 1031 ? infinity : 1;
  if (i % 7 == 5) return j < 2050 ? -infinity : 2.5;
  return 0.02 * static_cast<double>(j) + std::sin(static_cast<double>(7 * i + j)) + (i % 7 == 6 ? 3000.0 : 0.0);
}
template <class Tensor>
void fill(const Tensor& t) {
  t.fill_by([](const auto& at) { return x_at(static_cast<std::int64_t>(at[0]), static_cast<std::int64_t>(at[1])); });
}
/// By the definition, after the largest value is taken off.
template <class At>
double expected(std::int64_t n, const At& at) {
  double most = -infinity, sum = 0;
  for (std::int64_t j = 0; j < n; ++j) most = std::max(most, at(j));
  if (std::isinf(most)) return most;
  for (std::int64_t j = 0; j < n; ++j) sum += std::exp(at(j) - most);
  return most + std::log(sum);
}
double expected_row(std::int64_t i, std::int64_t n) {
  return expected(n, [&](std::int64_t j) { return x_at(i, j); });
}
void expect_close(double got, double wanted, double tolerance, std::int64_t i) {
  if (std::isinf(wanted)) EXPECT_EQ(got, wanted) << i;
  else EXPECT_NEAR(got, wanted, tolerance * std::fmax(1.0, std::fabs(wanted))) << i;
}

constexpr cleave::function of_rows([](auto x) { return logsumexp(x, col); });
constexpr cleave::function of_shifted_rows([](auto x) { return logsumexp(x + 1.0, col); });
constexpr cleave::function of_columns([](auto x) { return logsumexp(x, row); });
constexpr cleave::function of_all([](auto x) { return logsumexp(x); });

template <class T, class Tensor>
void expect_rows(std::int64_t rows, std::int64_t cols, double tolerance) {
  const cleave::grid g = grid_of_all();
  Tensor x(g, {rows, cols});
  column<T> y(g, {rows}), z(g, {rows});
  fill(x);
  y = of_rows(x);
  z = of_shifted_rows(x);
  const auto got = support::elements(y), shifted = support::elements(z);
  for (std::int64_t i = 0; i < rows; ++i) {
    expect_close(static_cast<double>(got[static_cast<std::size_t>(i)]), expected_row(i, cols), tolerance, i);
    expect_close(static_cast<double>(shifted[static_cast<std::size_t>(i)]), expected_row(i, cols) + 1, tolerance, i);
  }
}

TEST(logsumexp, of_rows) {
  for (const std::int64_t cols : {1, 15, 16, 2047, 2051, 9000}) {
    // On a device one thread adds up each piece of a row.
    expect_rows<float, by_columns<float>>(14, cols, cleave::on_host ? 4e-6 : 2e-5);
    expect_rows<double, by_columns<double>>(14, cols, 1e-14);
  }
  expect_rows<double, by_rows<double>>(30, 700, 1e-14);
  // Lines along the results, and pieces of few results.
  expect_rows<double, by_rows<double>>(300, 5, 1e-14);
  expect_rows<double, by_columns<double>>(2, 60000, 1e-14);
}
TEST(logsumexp, of_columns_and_of_all) {
  const cleave::grid g = grid_of_all();
  for (const std::int64_t rows : {3, 40}) {
    const std::int64_t cols = 2100;
    by_rows<double> x(g, {rows, cols});
    cleave::tensor<double, mesh(col)> y(g, {cols});
    number<double> all(g, {});
    fill(x);
    y = of_columns(x);
    all = of_all(x);
    const auto got = support::elements(y);
    for (std::int64_t j = 0; j < cols; ++j)
      expect_close(got[static_cast<std::size_t>(j)], expected(rows, [&](std::int64_t i) { return x_at(i, j); }), 1e-14,
                   j);
    const double wanted = expected(rows * cols, [&](std::int64_t k) { return x_at(k / cols, k % cols); });
    expect_close(all.item(), wanted, 1e-13, rows);
  }
}
TEST(logsumexp, nan_propagates) {
  const cleave::grid g = grid_of_all();
  by_columns<float> x(g, {4, 3000});
  column<float> y(g, {4});
  x.fill_by([](const auto& at) { return at[0] == 2 && at[1] == 2999 ? std::nanf("") : 1.0f; });
  y = of_rows(x);
  EXPECT_TRUE(std::isnan(support::elements(y)[2]));
  EXPECT_NEAR(support::elements(y)[1], 1 + std::log(3000.0), 1e-5);
}
TEST(logsumexp, is_reduced_once) {
  static constexpr auto plan = cleave::plan<column<float>(by_columns<float>)>(of_rows);
  static_assert(plan.count(cleave::kind::all_reduce) == 1 && plan.collectives() == 1);
}
TEST(logsumexp, of_partial_values) {
  const cleave::grid g = grid_of_all();
  partial p(g, {1000});
  column<double> y(g, {1000});
  const double mine = 0.5 * support::rank();
  std::vector<double> numbers(1000);
  for (std::size_t i = 0; i < 1000; ++i) numbers[i] = mine + static_cast<double>(i);
  cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(p.data(), numbers.data(), 8000);
  y = p;
  const auto got = support::elements(y);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const double wanted = static_cast<double>(i) +
                          expected(support::ranks(), [](std::int64_t r) { return 0.5 * static_cast<double>(r); });
    EXPECT_NEAR(got[static_cast<std::size_t>(i)], wanted, 1e-12);
  }
}

constexpr cleave::function of_labels([](auto x, auto labels) { return sum(x * cleave::one_hot(labels, col), col); });
constexpr cleave::function of_all_labels([](auto x, auto labels) { return sum(cleave::one_hot(labels, col) * x); });

TEST(single_terms, are_those_of_the_labels) {
  const cleave::grid g = grid_of_all();
  for (const std::int64_t rows : {3, 5000}) {
    const std::int64_t cols = 37;
    by_columns<float> x(g, {rows, cols});
    cleave::tensor<int, mesh(row)> labels(g, {rows});
    column<float> y(g, {rows});
    number<float> all(g, {});
    const auto value = [](std::int64_t i, std::int64_t j) { return static_cast<float>((3 * i + j) % 11); };
    // Some labels are no class.
    const auto label = [&](std::int64_t i) { return static_cast<int>(i * 5 % (cols + 2)) - 1; };
    x.fill_by(
        [&](const auto& at) { return value(static_cast<std::int64_t>(at[0]), static_cast<std::int64_t>(at[1])); });
    labels.fill_by([&](const auto& at) { return label(static_cast<std::int64_t>(at[0])); });
    y = of_labels(x, labels);
    all = of_all_labels(x, labels);
    float total = 0;
    const auto got = support::elements(y);
    for (std::int64_t i = 0; i < rows; ++i) {
      const int k = label(i);
      const float wanted = k >= 0 && k < cols ? value(i, k) : 0;
      EXPECT_EQ(got[static_cast<std::size_t>(i)], wanted) << i;
      total += wanted;
    }
    EXPECT_EQ(all.item(), total);
  }
}

constexpr cleave::function slope(cleave::grad(cleave::function([](auto x, auto labels) {
  return mean(cleave::nn::cross_entropy(x, labels, col));
})));

// Classes that cannot be have no part in the score of the label, in whatever order the scores lie in memory.
template <class Scores>
void expect_finite_losses(bool classes_first) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = 16, cols = 24;
  Scores x = [&] {
    if (classes_first) return Scores(g, {cols, rows});
    return Scores(g, {rows, cols});
  }();
  cleave::tensor<int, mesh(row)> labels(g, {rows});
  column<double> loss(g, {rows}), plain(g, {rows});
  const auto score = [](std::int64_t i, std::int64_t j) {
    return (i + j) % 3 == 0 ? 0.1 * static_cast<double>(j) : -infinity;
  };
  x.fill_by([&](const auto& at) {
    const auto first = static_cast<std::int64_t>(at[0]), second = static_cast<std::int64_t>(at[1]);
    return classes_first ? score(second, first) : score(first, second);
  });
  const auto label = [](std::int64_t i) { return 3 - i % 3; };
  labels.fill_by([&](const auto& at) { return static_cast<int>(label(static_cast<std::int64_t>(at[0]))); });
  constexpr cleave::function losses([](auto scores, auto of) { return cleave::nn::cross_entropy(scores, of, col); });
  constexpr cleave::function of_labels(
      [](auto scores, auto of) { return sum(select(cleave::one_hot<bool>(of, col), scores, 0.0), col); });
  loss = losses(x, labels);
  plain = of_labels(x, labels);
  const std::vector<double> got = loss.to_global(), chosen = plain.to_global();
  for (std::int64_t i = 0; i < rows; ++i) {
    const double total = expected(cols, [&](std::int64_t j) { return score(i, j); });
    EXPECT_NEAR(got[static_cast<std::size_t>(i)], total - score(i, label(i)), 1e-12) << i;
    EXPECT_EQ(chosen[static_cast<std::size_t>(i)], score(i, label(i))) << i;
  }
}
TEST(single_terms, beside_infinities) {
  expect_finite_losses<by_columns<double>>(false);
  expect_finite_losses<by_rows<double>>(false);
  expect_finite_losses<cleave::tensor<double, mesh(col / line, row)>>(true);
  expect_finite_losses<cleave::tensor<double, mesh(col, row)>>(true);
}

TEST(single_terms, gradient_of_cross_entropy) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = 11, cols = 300;
  by_columns<double> x(g, {rows, cols}), d(g, {rows, cols});
  cleave::tensor<int, mesh(row)> labels(g, {rows});
  const auto at_ij = [](std::int64_t i, std::int64_t j) { return std::sin(static_cast<double>(i * 300 + j)); };
  x.fill_by([&](const auto& at) { return at_ij(static_cast<std::int64_t>(at[0]), static_cast<std::int64_t>(at[1])); });
  labels.fill_by([](const auto& at) { return static_cast<int>(at[0] * 29); });
  d = slope(x, labels);
  const std::vector<double> got = d.to_global();
  for (std::int64_t i = 0; i < rows; ++i) {
    const double total = expected(cols, [&](std::int64_t j) { return at_ij(i, j); });
    for (std::int64_t j = 0; j < cols; ++j) {
      const double wanted = std::exp(at_ij(i, j) - total) - (j == i * 29 ? 1 : 0);
      ASSERT_NEAR(got[static_cast<std::size_t>(i * cols + j)], wanted / static_cast<double>(rows), 1e-13);
    }
  }
}

// A number that is added to all scores without rounding changes no digit of what depends on their differences alone.
template <class T>
constexpr T offset = T(1 << 20);
template <>
constexpr double offset<double> = 0x1p40;
template <>
const cleave::half offset<cleave::half> = cleave::half(1024.0f);
template <>
const cleave::bfloat16 offset<cleave::bfloat16> = cleave::bfloat16(128.0f);

constexpr cleave::function of_differences([](auto x, auto labels) {
  return std::tuple(softmax(x, col), log_softmax(x, col), cleave::nn::cross_entropy(x, labels, col),
                    cleave::nn::cross_entropy(x, labels, col, 0.1));
});
constexpr auto slope_of_total = cleave::grad(cleave::function([](auto x) { return sum(logsumexp(x, col)); }));
constexpr auto slope_of_loss = cleave::grad(
    cleave::function([](auto x, auto labels) { return sum(cleave::nn::cross_entropy(x, labels, col, 0.1)); }));

template <class T, class Scores>
void expect_digits_of_large_scores() {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = 6, cols = 40;
  cleave::tensor<int, mesh(row)> labels(g, {rows});
  labels.fill_by([](const auto& at) { return static_cast<int>(7 * at[0]); });
  std::vector<double> small;
  for (const T& added : {T(0), offset<T>}) {
    Scores x(g, {rows, cols}), share(g, {rows, cols}), log_share(g, {rows, cols}), slope(g, {rows, cols});
    column<T> loss(g, {rows}), smooth(g, {rows});
    x.fill_by([&](const auto& at) {
      return static_cast<T>(static_cast<double>((3 * at[0] + 5 * at[1]) % 8) + static_cast<double>(added));
    });
    std::vector<double> all;
    const auto note = [&](const auto& t) {
      for (const auto& element : t.to_global()) all.push_back(static_cast<double>(element));
    };
    of_differences(x, labels).into(share, log_share, loss, smooth);
    note(share), note(log_share), note(loss), note(smooth);
    slope = slope_of_total(x);
    note(slope);
    slope = slope_of_loss(x, labels);
    note(slope);
    if (small.empty()) small = all;
    const double ulps = 4 * static_cast<double>(std::numeric_limits<cleave::computed<T>>::epsilon());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(all[i], small[i], ulps * std::abs(small[i])) << i;
  }
}
template <class T>
class large_scores : public ::testing::Test {};
using element_types = ::testing::Types<float, double, cleave::half, cleave::bfloat16>;
TYPED_TEST_SUITE(large_scores, element_types);
TYPED_TEST(large_scores, keep_their_digits) {
  expect_digits_of_large_scores<TypeParam, by_rows<TypeParam>>();
  expect_digits_of_large_scores<TypeParam, by_columns<TypeParam>>();
}

// Labels that are ignored have no loss and no gradient, whatever their scores are, in every layout; the mean is that
// over the others of all devices.
template <std::int64_t Ignored>
constexpr cleave::function counted(cleave::value_and_grad(cleave::function([](auto x, auto labels) {
  return weighted_mean(cleave::nn::cross_entropy(x, labels, col, cleave::ignore{Ignored}, 0.1), labels != Ignored);
})));
template <std::int64_t Ignored, class Scores, class Labels>
void expect_ignored() {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = 9, cols = 13;
  Scores x(g, {rows, cols}), d(g, {rows, cols});
  Labels labels(g, {rows});
  number<double> loss(g, {});
  const auto label = [](std::int64_t i) { return i % 4 == 1 ? Ignored : (5 * i + 1) % 13; };
  const auto score = [&](std::int64_t i, std::int64_t j) {
    if (label(i) == Ignored) return i == 1 ? infinity : std::numeric_limits<double>::quiet_NaN();
    return 3 * std::sin(static_cast<double>(i * 13 + j));
  };
  x.fill_by([&](const auto& at) { return score(static_cast<std::int64_t>(at[0]), static_cast<std::int64_t>(at[1])); });
  labels.fill_by([&](const auto& at) { return static_cast<int>(label(static_cast<std::int64_t>(at[0]))); });
  counted<Ignored>(x, labels).into(loss, d);
  double wanted = 0, count = 0;
  for (std::int64_t i = 0; i < rows; ++i) count += label(i) == Ignored ? 0 : 1;
  const std::vector<double> got = d.to_global();
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool ignored = label(i) == Ignored;
    const double total = ignored ? 0 : expected(cols, [&](std::int64_t j) { return score(i, j); });
    double mean = 0;
    for (std::int64_t j = 0; j < cols && !ignored; ++j) mean += score(i, j) / static_cast<double>(cols);
    if (!ignored) wanted += (total - 0.9 * score(i, label(i)) - 0.1 * mean) / count;
    for (std::int64_t j = 0; j < cols; ++j) {
      const double target = (j == label(i) ? 0.9 : 0) + 0.1 / static_cast<double>(cols);
      const double slope = ignored ? 0 : (std::exp(score(i, j) - total) - target) / count;
      ASSERT_NEAR(got[static_cast<std::size_t>(i * cols + j)], slope, 1e-14) << i << " " << j;
    }
  }
  EXPECT_NEAR(loss.item(), wanted, 1e-13);
}
TEST(ignored_labels, have_no_loss) {
  using whole = cleave::tensor<int, mesh(row)>;
  using sharded = cleave::tensor<int, mesh(row / line)>;
  expect_ignored<-100, by_rows<double>, sharded>();
  expect_ignored<-100, by_columns<double>, whole>();
  expect_ignored<-100, by_columns<double>, sharded>();
  expect_ignored<3, by_rows<double>, whole>(); // a word of the vocabulary
}
TEST(ignored_labels, nothing_counts) {
  const cleave::grid g = grid_of_all();
  by_rows<double> x(g, {4, 5}), d(g, {4, 5});
  cleave::tensor<int, mesh(row / line)> labels(g, {4});
  number<double> loss(g, {});
  x.fill(1);
  labels.fill(-100);
  counted<-100>(x, labels).into(loss, d);
  EXPECT_EQ(loss.item(), 0);
  for (const double slope : d.to_global()) EXPECT_EQ(slope, 0);
}
// Weights that are numbers have gradients, also where they are 0; there an element that is no number does not count.
TEST(ignored_labels, weights_have_gradients) {
  constexpr auto both = cleave::value_and_grad<0, 1>(
      cleave::function([](auto x, auto w) { return weighted_mean(x, w); }));
  const cleave::grid g = grid_of_all();
  cleave::tensor<double, mesh(row / line, col)> x(g, {4, 2}), dx(g, {4, 2});
  cleave::tensor<double, mesh(row)> w(g, {4}), dw(g, {4});
  number<double> mean(g, {});
  x.fill_by([](const auto& at) { return at[0] == 2 ? infinity : static_cast<double>(at[0] * 2 + at[1]); });
  w.fill_by([](const auto& at) { return at[0] < 2 ? static_cast<double>(at[0] + 1) : 0.0; });
  both(x, w).into(mean, dx, dw);
  const double middle = (0.0 + 1 + 2 * (2 + 3)) / 6;
  EXPECT_NEAR(mean.item(), middle, 1e-14);
  const std::vector<double> slopes = dx.to_global(), of_weights = dw.to_global();
  const double wanted[] = {1 / 6.0, 1 / 6.0, 2 / 6.0, 2 / 6.0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(slopes[i], wanted[i], 1e-14) << i;
  EXPECT_NEAR(of_weights[0], (0 + 1 - 2 * middle) / 6, 1e-14);
  EXPECT_NEAR(of_weights[1], (2 + 3 - 2 * middle) / 6, 1e-14);
  EXPECT_NEAR(of_weights[3], (6 + 7 - 2 * middle) / 6, 1e-14);
}
// Look-ups: an ignored index gives 0, also if it is one of the table, and adds nothing to it.
inline constexpr cleave::dim<"word"> word;
constexpr cleave::function look_up([](auto table, auto ids) {
  return cleave::nn::embedding(table, ids, word, cleave::ignore{0});
});
constexpr auto added = cleave::grad(cleave::function(
    [](auto table, auto ids) { return sum(cleave::nn::embedding(table, ids, word, cleave::ignore{0})); }));
constexpr cleave::function counts([](auto table, auto ids) {
  const auto hot = cleave::one_hot<double>(ids, word, cleave::ignore{4});
  const auto added_up = scatter_add(cleave::cast<double>(ids + 1), ids, word, cleave::ignore{4});
  return std::pair(dot(hot, table, word), added_up);
});
template <class Table, class Ids, class Rows>
void expect_ignored_rows() {
  const cleave::grid g = grid_of_all();
  Table table(g, {6, 2}), slope(g, {6, 2});
  Ids ids(g, {5});
  Rows rows(g, {5, 2});
  cleave::tensor<double, mesh(word)> sums(g, {6});
  table.fill_by([](const auto& at) { return static_cast<double>(1 + 2 * at[0] + at[1]); });
  static constexpr int id[] = {4, 0, 2, 0, 4};
  using number = typename Ids::element_type;
  ids.fill_by([](const auto& at) { return static_cast<number>(id[at[0]]); });
  const auto expect_rows_but = [&](int ignored) {
    const std::vector<double> got = rows.to_global();
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_EQ(got[2 * i + k], id[i] == ignored ? 0 : 1 + 2 * id[i] + static_cast<int>(k)) << i;
  };
  rows = look_up(table, ids);
  expect_rows_but(0);
  rows = gather(table, word, ids, cleave::ignore_c<2>);
  expect_rows_but(2);
  slope = added(table, ids);
  const std::vector<double> back = slope.to_global();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(back[2 * i], i == 4 ? 2 : i == 2 ? 1 : 0) << i;
  counts(table, ids).into(rows, sums);
  expect_rows_but(4);
  EXPECT_EQ(sums.to_global(), (std::vector<double>{2, 0, 3, 0, 0, 0}));
}
TEST(ignored_labels, have_no_rows) {
  using rows_of_words = cleave::tensor<double, mesh(word / line, col)>;
  using whole = cleave::tensor<double, mesh(word, col)>;
  expect_ignored_rows<rows_of_words, cleave::tensor<int, mesh(row / line)>, by_rows<double>>();
  expect_ignored_rows<rows_of_words, cleave::tensor<unsigned, mesh(row)>, by_columns<double>>();
  expect_ignored_rows<whole, cleave::tensor<std::uint8_t, mesh(row / line)>, by_rows<double>>();
}
TEST(ignored_labels, are_not_taken_along) {
  const cleave::grid g = grid_of_all();
  by_rows<double> x(g, {3, 4}), y(g, {3, 4});
  cleave::tensor<std::int64_t, mesh(row / line, col)> at(g, {3, 4});
  x.fill_by([](const auto& i) { return static_cast<double>(10 * i[0] + i[1] + 1); });
  at.fill_by([](const auto& i) { return static_cast<std::int64_t>(3 - i[1]); });
  y = take_along(x, at, col, cleave::ignore_c<1>);
  const std::vector<double> got = y.to_global();
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_EQ(got[i], i % 4 == 2 ? 0 : static_cast<double>(10 * (i / 4) + 4 - i % 4)) << i;
}

} // namespace CLEAVE_SOURCE
