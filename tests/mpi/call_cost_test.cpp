// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include "../../examples/digits_model.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

// A warm call takes nothing from the heap, binds nothing, and makes only the calls of MPI that its plan has.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;
inline constexpr cleave::dim<"pair"> pair_of;
inline constexpr cleave::dim<"two", 2> two;

using Rows = cleave::tensor<float, mesh(row / data, col)>;
using Columns = cleave::tensor<float, mesh(row, col / data / model)>;
using Left = cleave::tensor<float, mesh(row / data, deep / model)>;
using Right = cleave::tensor<float, mesh(deep / model, col)>;
using Turned = cleave::tensor<float, mesh(col, row / data)>;
using Scattered = cleave::tensor<float, mesh(row / data, col / model)>;
using Vector = cleave::tensor<float, mesh(col)>;

constexpr cleave::function product([](auto a, auto b, auto c) { return relu(dot(a, b, deep)) + c; });
constexpr cleave::function pairs([](auto x) { return std::tuple(split(x, col, pair_of, two), mean(x, row)); });

// Dims of four names: each tensor has its own number of columns.
inline constexpr cleave::dim<"p"> p;
inline constexpr cleave::dim<"q"> q;
inline constexpr cleave::dim<"r"> r;
inline constexpr cleave::dim<"s"> s;
template <const auto& D>
using Wide = cleave::tensor<float, mesh(row / data, D)>;
template <const auto& D>
using Narrow = cleave::tensor<float, mesh(D)>;
constexpr cleave::function sums([](auto a, auto b, auto c, auto d) {
  return std::tuple(sum(a, row), sum(b, row), sum(c, row), sum(d, row));
});

std::vector<cleave::grid> grids() { return support::grids(mesh); }

/// Calls f until it is warm, then once more under all counters.
template <class F>
void expect_cheap(const cleave::grid& g, std::int64_t collectives, const char* what, F&& f) {
  f();
  const std::int64_t bound = g.state().bound().times_made();
  f();
  EXPECT_EQ(g.state().bound().times_made(), bound) << what << ": the second call binds again";
  support::reset_charges();
  std::int64_t taken = 0, by_new = support::allocations();
  {
    const support::heap_count count;
    f();
    taken = count();
  }
  by_new = support::allocations() - by_new;
  if (support::heap_is_left_alone) {
    EXPECT_EQ(taken, 0) << what;
    EXPECT_EQ(by_new, 0) << what;
  }
  EXPECT_EQ(g.state().bound().times_made(), bound) << what;
  if (collectives >= 0) {
    EXPECT_EQ(support::charged_calls(), collectives) << what;
  }
}

TEST(call_cost, the_counter_sees_every_way_to_the_heap) {
  std::int64_t taken = 0;
  {
    const support::heap_count count;
    delete new volatile int(1);
    taken = count();
  }
  EXPECT_EQ(taken, 1);
  struct alignas(256) wide {
    char byte[256];
  };
  if (support::counts_malloc()) {
    const support::heap_count count;
    void* volatile memory = std::malloc(10);
    memory = std::realloc(memory, 1000);
    std::free(memory);
    memory = std::calloc(3, 3);
    std::free(memory);
    ::operator delete(::operator new(sizeof(wide), std::align_val_t(alignof(wide))), std::align_val_t(alignof(wide)));
    taken = count();
    EXPECT_EQ(taken, 4);
  }
  {
    // Whatever MPI allocates for a communicator is not counted, and nothing is outside of the scope.
    const support::heap_count count;
    const support::uncounted in_mpi;
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    MPI_Comm_free(&copy);
    if (support::counts_malloc()) {
      taken = count();
      EXPECT_EQ(taken, 0);
    }
  }
}

TEST(call_cost, statements) {
  for (const cleave::grid& g : grids()) {
    // Extents that divide, that do not, and none at all.
    for (const std::int64_t n : {16, 7, 0}) {
      Rows x(g, {n, 6}), y(g, {n, 6});
      Turned t(g, {6, n});
      Columns c(g, {n, 6});
      expect_cheap(g, 0, "one pass", [&] { y = relu(x) * 0.5f + y; });
      expect_cheap(g, 0, "another memory order", [&] { t = 2.0f * x; });
      expect_cheap(g, -1, "another layout", [&] { c = x; });
      expect_cheap(g, -1, "and back", [&] { y = c + 1.0f; });
      Vector sums(g, {6});
      expect_cheap(g, -1, "a reduction over a sharded dim", [&] { sums = sum(x, row); });
    }
  }
}

TEST(call_cost, functions) {
  for (const cleave::grid& g : grids()) {
    for (const std::int64_t n : {16, 7}) {
      Left a(g, {n, 12});
      Right b(g, {12, 8});
      Rows c(g, {n, 8}), y(g, {n, 8});
      Scattered s(g, {n, 8});
      const bool reduces = g.size(model) > 1 && y.local_size() > 0;
      expect_cheap(g, reduces ? 1 : 0, "a product and its all-reduce", [&] { y = product(a, b, c); });
      expect_cheap(g, reduces ? 1 : 0, "over its own argument", [&] { c = product(a, b, c); });
      expect_cheap(g, -1, "a product and its reduce-scatter", [&] { s = product(a, b, c); });
      expect_cheap(g, -1, "a product as a statement", [&] { y = dot(a, b, deep) - c; });
      expect_cheap(g, -1, "a product that a number multiplies", [&] { y = c - 0.25f * dot(a, b, deep); });
      expect_cheap(g, -1, "a column", [&] { y = dot(a, b, deep) * sum(c, col); });
      cleave::tensor<float, mesh(row / data, pair_of, two)> halves(g, {n, 4, 2});
      Vector means(g, {8});
      expect_cheap(g, -1, "two results, extents from a split", [&] { pairs(y).into(halves, means); });
    }
  }
}

/// Two sizes of one plan in turn stay warm both.
TEST(call_cost, two_sizes_in_turn) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  Rows x(g, {8, 4}), y(g, {8, 4}), u(g, {24, 3}), v(g, {24, 3});
  expect_cheap(g, 0, "two sizes", [&] {
    y = x + y;
    v = u + v;
  });
}

/// Small all-reduces travel together, large ones alone; both arrive.
TEST(call_cost, small_reductions_are_one_message) {
  const std::int64_t large = cleave::comm::bucketed_value_bytes / 4 + 1;
  for (const cleave::grid& g : grids()) {
    for (const std::int64_t n : {12, 5, 1}) {
      Wide<p> a(g, {n, large});
      Wide<q> b(g, {n, large - 1});
      Wide<r> c(g, {n, 3});
      Wide<s> d(g, {n, 1});
      Narrow<p> of_a(g, {large});
      Narrow<q> of_b(g, {large - 1});
      Narrow<r> of_c(g, {3});
      Narrow<s> of_d(g, {1});
      a.fill(2);
      b.fill_by([](const auto& at) { return static_cast<float>(at[1] % 7); });
      c.fill_by([](const auto& at) { return static_cast<float>(at[0] + at[1]); });
      d.fill(-1);
      expect_cheap(g, g.size(data) > 1 ? 2 : 0, "four sums", [&] { sums(a, b, c, d).into(of_a, of_b, of_c, of_d); });
      const auto rows = static_cast<float>(n);
      std::vector<float> wanted(static_cast<std::size_t>(large - 1));
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = rows * static_cast<float>(i % 7);
      EXPECT_EQ(of_a.to_global(), std::vector<float>(static_cast<std::size_t>(large), 2 * rows));
      EXPECT_EQ(of_b.to_global(), wanted);
      const float first = rows * (rows - 1) / 2;
      EXPECT_EQ(of_c.to_global(), (std::vector<float>{first, first + rows, first + 2 * rows}));
      EXPECT_EQ(of_d.to_global(), std::vector<float>{-rows});
    }
  }
}

constexpr cleave::function maxima_named_otherwise([](auto a, auto b, auto of_first, auto of_second) {
  const auto first = max(a, row), second = max(b, row);
  return dot(rename(first, p, q), of_first, q) + dot(rename(second, r, s), of_second, s);
});

/// Maxima that travel together and are read under another name, in the memory that both names have.
TEST(call_cost, maxima_that_are_read_under_another_name) {
  for (const cleave::grid& g : grids()) {
    Wide<p> a(g, {5, 3});
    Wide<r> b(g, {5, 4});
    cleave::tensor<float, mesh(q, col)> of_first(g, {3, 6});
    cleave::tensor<float, mesh(s, col)> of_second(g, {4, 6});
    Vector y(g, {6});
    a.fill_by([](const auto& at) { return static_cast<float>(at[0] + at[1]); });
    b.fill_by([](const auto& at) { return static_cast<float>(at[0] * at[1]); });
    of_first.fill_by([](const auto& at) { return static_cast<float>(at[0] - at[1]); });
    of_second.fill_by([](const auto& at) { return static_cast<float>(at[0] + 2 * at[1]); });
    expect_cheap(g, -1, "two maxima", [&] { y = maxima_named_otherwise(a, b, of_first, of_second); });
    std::vector<float> wanted;
    for (int j = 0; j < 6; ++j) {
      int sum = 0;
      for (int k = 0; k < 3; ++k) sum += (4 + k) * (k - j);
      for (int k = 0; k < 4; ++k) sum += 4 * k * (k + 2 * j);
      wanted.push_back(static_cast<float>(sum));
    }
    EXPECT_EQ(y.to_global(), wanted);
  }
}

constexpr cleave::function sums_of_five([](auto all) {
  std::remove_const_t<decltype(all)> made = all;
  for (auto& each : made) each = sum(each, row);
  return made;
});

/// What travels together has at most the size of a bucket: of five values, each a quarter of it, the last one is alone.
TEST(call_cost, a_full_bucket_is_sent) {
  constexpr std::int64_t each = cleave::comm::bucketed_value_bytes / 4;
  static_assert(4 * cleave::comm::bucketed_value_bytes == cleave::comm::bucket_bytes);
  for (const cleave::grid& g : grids()) {
    const auto wide = [&](float with) {
      Wide<p> made(g, {4, each});
      made.fill(with);
      return made;
    };
    const auto narrow = [&] { return Narrow<p>(g, {each}); };
    const std::array<Wide<p>, 5> of{wide(1), wide(2), wide(3), wide(4), wide(5)};
    std::array<Narrow<p>, 5> to{narrow(), narrow(), narrow(), narrow(), narrow()};
    expect_cheap(g, g.size(data) > 1 ? 2 : 0, "five sums", [&] { sums_of_five(of).into(to); });
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_EQ(to[i].to_global(), std::vector<float>(static_cast<std::size_t>(each), 4 * static_cast<float>(i + 1)));
  }
}

TEST(call_cost, training_step) {
  using types = digits::of<float>;
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const cleave::grid g(digits::mesh, MPI_COMM_WORLD, sizes);
    const auto weights = [&] {
      types::Weights w{{g, {64, 32}}, {g, {32}}, {g, {32, 10}}, {g, {10}}};
      w.up.fill(0.01f);
      w.down.fill(0.02f);
      return w;
    };
    types::Weights w = weights(), momentum = weights();
    types::Images images(g, {30, 64});
    types::Labels labels(g, {30});
    types::Scalar loss(g, {});
    images.fill(0.5f);
    float rate = 0.1f;
    // Scores over the model axis; all gradients and the loss, which are small, over the data axis.
    const std::int64_t messages = (sizes[1] > 1 ? 1 : 0) + (sizes[0] > 1 ? 1 : 0);
    expect_cheap(g, messages, "digits", [&] {
      types::train(w, momentum, images, labels, rate).into(w, momentum, loss);
      rate *= 0.9f;
    });
  }
}

} // namespace CLEAVE_SOURCE
