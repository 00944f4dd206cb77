// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checked mode: what is wrong on one rank is an error on all of them, in time, that names the cause.
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/embedding.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"word", 4> word;

using Rows = cleave::tensor<double, mesh(row / data, col)>;
using Whole = cleave::tensor<double, mesh(row, col)>;
using Ids = cleave::tensor<int, mesh(row)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using Flag = cleave::tensor<bool, mesh()>;

cleave::grid grid_of_all(const cleave::checks& c) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {1, support::ranks()});
  g.check(c);
  return g;
}
cleave::grid sharded_grid(const cleave::checks& c) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  g.check(c);
  return g;
}
constexpr cleave::checks calls{.calls = true};
constexpr cleave::checks nans{.calls = true, .nans = true};

/// What a call throws; every rank must have the same sentence.
template <class Error, class F>
std::string error_of(F&& f) {
  std::string what = "nothing";
  try {
    f();
  } catch (const Error& e) {
    what = e.what();
  }
  char first[512] = "", mine[512] = "";
  std::snprintf(first, sizeof first, "%s", what.c_str());
  std::snprintf(mine, sizeof mine, "%s", what.c_str());
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_STREQ(first, mine);
  return what;
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr cleave::function scaled([](auto x, auto factor) { return x * factor; });
constexpr cleave::function total([](auto x) { return sum(x); });

TEST(checked, right_programs_run_as_they_do_unchecked) {
  for (const cleave::grid& g : support::grids(mesh)) {
    g.check(nans);
    Rows x(g, {6, 4}), y(g, {6, 4});
    x.fill(2);
    y = scaled(x, 1.5);
    y = y + x;
    Number n(g, {});
    n = total(y);
    EXPECT_EQ(n.item(), 24 * 5.0);
    // What finds out when it runs what travels, and agrees on the memory for it.
    y = cleave::sort(x, row);
    n = total(y);
    EXPECT_EQ(n.item(), 48);
    cleave::tensor<int, mesh(word)> ids(g, {4});
    ids.fill(5);
    n = sum(cleave::gather(y, row, ids));
    EXPECT_EQ(n.item(), 4 * 4 * 2);
    g.check({});
    EXPECT_FALSE(g.checked().any());
    n = total(x);
    EXPECT_EQ(n.item(), 48);
  }
}

// If one rank alone lacks memory for the checks of a plan that is bound already, all throw, and can go on.
TEST(checked, no_memory_for_checks_on_one_rank) {
  bool covered = false;
  for (int number = 1; number <= 24; ++number) {
    const cleave::grid g = sharded_grid({});
    Rows x(g, {12, 4});
    Number n(g, {});
    x.fill(2);
    n = total(x);
    g.check({.calls = true, .time_limit = 30});
    int failed = 0, most = 0, least = 0;
    {
      const support::no_memory none(support::rank() == support::ranks() - 1 ? number : 0);
      try {
        n = total(x);
      } catch (const cleave::memory_error&) {
        failed = 1;
      }
    }
    MPI_Allreduce(&failed, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&failed, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    EXPECT_EQ(most, least) << number;
    covered = covered || failed != 0;
    n = total(x);
    EXPECT_EQ(n.item(), 96) << number;
  }
  EXPECT_TRUE(covered);
}

TEST(checked, numbers_that_differ) {
  if (support::ranks() == 1) return;
  const cleave::grid g = sharded_grid(calls);
  Rows x(g, {6, 4}), y(g, {6, 4});
  const std::string what = error_of<cleave::agreement_error>([&] { y = scaled(x, support::rank() == 1 ? 0.25 : 0.5); });
  EXPECT_TRUE(contains(what, "argument 1, f64[], differs between ranks 0 and 1: 0.5 and 0.25")) << what;
  // Nothing has been run, and the next call is in step.
  y = scaled(x, 0.5);
}

TEST(checked, replicas_that_differ) {
  if (support::ranks() == 1) return;
  const cleave::grid g = grid_of_all(calls);
  Whole x(g, {6, 4});
  Number n(g, {});
  x.fill(1);
  n = total(x);
  EXPECT_EQ(n.item(), 24);
  // On one rank alone, in the memory itself.
  const auto set = [](double* at, double value) {
    cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(at, &value, sizeof value);
  };
  if (support::rank() == support::ranks() - 1) set(x.data() + 7, 3);
  const std::string what = error_of<cleave::agreement_error>([&] { n = total(x); });
  EXPECT_TRUE(
      contains(what, "argument 0, f64[row, col], differs between ranks 0 and " + std::to_string(support::ranks() - 1)))
      << what;
  // Shards are no replicas.
  const cleave::grid h = sharded_grid(calls);
  Rows y(h, {6, 4});
  y.fill(support::rank());
  Number m(h, {});
  m = total(y);
  // Nor does the payload of a NaN count.
  const cleave::grid k = grid_of_all(calls);
  Whole z(k, {6, 4});
  set(z.data() + 3, support::rank() == 0 ? std::nan("1") : std::nan("2"));
  Number l(k, {});
  l = total(z);
  EXPECT_TRUE(std::isnan(l.item()));
}

TEST(checked, other_calls) {
  if (support::ranks() == 1) return;
  const cleave::grid g = sharded_grid(calls);
  Rows x(g, {6, 4}), y(g, {6, 4});
  Number n(g, {});
  const std::string what = error_of<cleave::agreement_error>([&] {
    if (support::rank() == 0) n = total(x);
    else y = scaled(x, 0.5);
  });
  EXPECT_TRUE(contains(what, "rank 0 makes call 4, sum at checked_test.cpp:")) << what;
  EXPECT_TRUE(contains(what, "but rank 1 makes call 4, mul at checked_test.cpp:")) << what;
  n = total(x);
}

// As of two binaries: the same operation at the same line, with another number in it.
// clang-format off
constexpr cleave::function twice([](auto x) { return x * 2.0; }); constexpr cleave::function thrice([](auto x) { return x * 3.0; });
// clang-format on
TEST(checked, other_plans_at_one_line) {
  if (support::ranks() == 1) return;
  const cleave::grid g = sharded_grid(calls);
  Rows x(g, {6, 4}), y(g, {6, 4});
  const std::string what = error_of<cleave::agreement_error>([&] {
    if (support::rank() == 0) y = twice(x);
    else y = thrice(x);
  });
  EXPECT_TRUE(contains(what, "rank 0 makes call 3, mul at checked_test.cpp:")) << what;
  EXPECT_TRUE(contains(what, "but rank 1 makes call 3, mul at checked_test.cpp:")) << what;
  EXPECT_TRUE(contains(what, ", with another plan")) << what;
  y = twice(x);
}

// Replicas along some axes only.
TEST(checked, replicas_along_one_axis) {
  if (support::ranks() != 4) return;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {2, 2});
  g.check(calls);
  using Cols = cleave::tensor<double, mesh(row, col / model)>;
  constexpr cleave::function sums([](auto a, auto b, auto c, auto n) { return sum(a) + sum(b) + sum(c) + n; });
  const Rows a(g, {6, 4});
  const Cols b(g, {6, 4});
  const Whole c(g, {6, 4});
  Number n(g, {});
  for (const auto* t : {a.data(), b.data(), c.data()}) ASSERT_NE(t, nullptr);
  n = sums(a, b, c, 1.0);
  EXPECT_EQ(n.item(), 1);
  const double three = 3;
  const auto set = [&](const auto& t) {
    cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(t.data(), &three, sizeof three);
  };
  if (support::rank() == 3) set(b);
  const std::string what = error_of<cleave::agreement_error>([&] { n = sums(a, b, c, 1.0); });
  EXPECT_TRUE(contains(what, "argument 1, f64[row, col/model], differs between ranks 1 and 3")) << what;
  if (support::rank() == 1) set(b);
  n = sums(a, b, c, 1.0);
  EXPECT_EQ(n.item(), 4);
}

constexpr cleave::function sum_of_all([](const auto& all) {
  auto sum = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) sum = sum + all[i];
  return sum;
});
TEST(checked, more_replicas_than_one_message_has_words_for) {
  if (support::ranks() == 1) return;
  const cleave::grid g = support::grids(mesh).front();
  g.check(calls);
  std::array<Number, 70> all;
  for (Number& n : all) n = Number(g, {});
  Number sum(g, {});
  sum = sum_of_all(all);
  EXPECT_EQ(sum.item(), 0);
  const double three = 3;
  if (support::rank() == 1)
    cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(all[65].data(), &three, sizeof three);
  const std::string what = error_of<cleave::agreement_error>([&] { sum = sum_of_all(all); });
  EXPECT_TRUE(contains(what, "argument 65, f64[], differs between ranks 0 and 1")) << what;
}

struct refuses_on_rank_1 {
  static constexpr std::string_view name = "refuses_on_rank_1";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {
    if (support::rank() == 1) throw std::runtime_error("the kernel of rank 1 refuses");
  }
};
TEST(checked, a_rank_that_left_a_call) {
  if (support::ranks() == 1) return;
  constexpr cleave::function refused(
      [](auto x) { return sum(cleave::call<refuses_on_rank_1>(cleave::whole(col), x)); });
  const cleave::grid g = sharded_grid(calls);
  Rows x(g, {6, 4});
  Number n(g, {});
  const bool left = support::rank() == 1;
  std::string what;
  try {
    if (left) {
      EXPECT_THROW((n = refused(x)), std::runtime_error);
      n = total(x);
    } else {
      n = refused(x);
    }
  } catch (const cleave::agreement_error& e) {
    what = e.what();
  }
  EXPECT_TRUE(contains(what, "rank " + std::string(left ? "0" : "1") + " is at another place of the program")) << what;
  EXPECT_TRUE(contains(what, left ? "at call 4, sum" : "all_reduce of call 3, call at")) << what;
  EXPECT_THROW((n = total(x)), cleave::mpi_error);
}

TEST(checked, a_rank_that_does_not_come) {
  if (support::ranks() == 1) return;
  const cleave::grid g = sharded_grid({.calls = true, .time_limit = 1});
  Rows x(g, {6, 4});
  Number n(g, {});
  n = total(x);
  if (support::rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  } else {
    try {
      n = total(x);
      ADD_FAILURE() << "no error";
    } catch (const cleave::agreement_error& e) {
      EXPECT_TRUE(contains(e.what(), "rank 1 did not arrive within 1 s at call 4, sum at checked_test.cpp:"))
          << e.what();
    }
    // The ranks are out of step.
    EXPECT_THROW((n = total(x)), cleave::mpi_error);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(checked, time_limits_that_are_none) {
  const cleave::grid g = sharded_grid({});
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double limit : {0.0, -1.0, infinity, std::numeric_limits<double>::quiet_NaN()}) {
    // Of one rank alone.
    const std::string what = error_of<cleave::environment_error>([&] {
      if (support::rank() == 0) g.check({.calls = true, .time_limit = limit});
      else g.check({.calls = true});
    });
    EXPECT_TRUE(contains(what, "time limit of checks is not a number above 0")) << what;
    EXPECT_FALSE(g.state().checked().any());
  }
}

constexpr cleave::function halved([](auto x, auto tolerance) {
  return cleave::repeat_until(
      x, [](const auto& v) { return v * 0.5; }, [&](const auto& v) { return max(abs(v)) < tolerance; }, 100);
});
TEST(checked, tolerances_that_differ) {
  if (support::ranks() == 1) return;
  const cleave::grid g = sharded_grid(calls);
  Rows x(g, {6, 4}), y(g, {6, 4});
  x.fill(1);
  y = halved(x, 0.1);
  EXPECT_EQ(y.to_global()[0], 0.0625);
  const std::string what = error_of<cleave::agreement_error>([&] { y = halved(x, support::rank() == 0 ? 0.1 : 1e-9); });
  EXPECT_TRUE(contains(what, "argument 1, f64[], differs between ranks")) << what;
}

TEST(checked, the_operation_that_made_the_first_nan) {
  constexpr cleave::function chain([](auto x, auto y) {
    auto a = x * 2.0;
    auto b = a - y;
    auto c = log(b); // here
    return c + x;
  });
  for (const cleave::grid& g : support::grids(mesh)) {
    g.check(nans);
    Rows x(g, {6, 4}), y(g, {6, 4}), z(g, {6, 4});
    x.fill(1);
    y.fill(1);
    z = chain(x, y);
    y.fill_by([](const auto& at) { return at[0] == 4 && at[1] == 2 ? 3.0 : 1.0; });
    const std::string what = error_of<cleave::nan_error>([&] { z = chain(x, y); });
    EXPECT_TRUE(contains(what, "the first NaN was made by log at checked_test.cpp:")) << what;
    EXPECT_TRUE(contains(what, ": f64[row/data, col] at index [4, 2] on rank ")) << what;
    // Where the result takes the place of an operand too. The lines of statements are not known.
    x.fill_by([](const auto& at) { return at[0] == 5 && at[1] == 3 ? -1.0 : 1.0; });
    y.fill(1);
    const std::string in_place = error_of<cleave::nan_error>([&] { x = sqrt(x) + 1.0; });
    EXPECT_TRUE(contains(in_place, "made by sqrt: f64[row/data, col] at index [5, 3] on rank ")) << in_place;
    // And what comes with the arguments.
    y.fill_by([](const auto& at) { return at[0] == 1 && at[1] == 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0; });
    const std::string given = error_of<cleave::nan_error>([&] { z = y + 1.0; });
    EXPECT_TRUE(contains(given, "argument 0, f64[row/data, col], has a NaN before the call, at index [1, 1]")) << given;
  }
}
TEST(checked, a_label_that_is_no_index) {
  constexpr auto loss_of = cleave::value_and_grad(cleave::function([](auto scores, auto labels) {
    return mean(cleave::nn::cross_entropy(scores, labels, col)); // here
  }));
  constexpr auto loss_of_others = cleave::value_and_grad(cleave::function([](auto scores, auto labels) {
    return mean(cleave::nn::cross_entropy(scores, labels, col, cleave::ignore{-100}));
  }));
  constexpr cleave::function rows_of(
      [](auto table, auto ids) { return cleave::nn::embedding(table, rename(ids, row, word), row); });
  constexpr cleave::function rows_of_others([](auto table, auto ids) {
    return cleave::nn::embedding(table, rename(ids, row, word), row, cleave::ignore{9});
  });
  for (const cleave::grid& g : support::grids(mesh)) {
    g.check(calls);
    Rows scores(g, {4, 7}), slope(g, {4, 7});
    Ids labels(g, {4});
    Number loss(g, {});
    cleave::tensor<double, mesh(word, col)> rows(g, {4, 7});
    scores.fill(1);
    const auto wrong = [&](int label) {
      labels.fill_by([&](const auto& at) { return at[0] == 2 ? label : static_cast<int>(at[0]); });
    };
    const auto expect_named = [&](const std::string& what, std::string_view text) {
      EXPECT_TRUE(contains(what, text)) << what;
      EXPECT_TRUE(contains(what, "; it was read at checked_test.cpp:")) << what;
    };
    wrong(7);
    const auto losses = [&] { loss_of(scores, labels).into(loss, slope); };
    const auto look_ups = [&] { rows = rows_of(scores, labels); };
    expect_named(error_of<cleave::label_error>(losses), "label 7 of row 2 is no index of dim 'col' of extent 7");
    wrong(-100);
    expect_named(error_of<cleave::label_error>(losses), "label -100 of row 2 is no index of dim 'col' of extent 7");
    expect_named(error_of<cleave::label_error>(look_ups), "label -100 of word 2 is no index of dim 'row' of extent 4");
    loss_of_others(scores, labels).into(loss, slope);
    wrong(-1);
    expect_named(error_of<cleave::label_error>([&] { loss_of_others(scores, labels).into(loss, slope); }),
                 "label -1 of row 2 is no index of dim 'col' of extent 7");
    wrong(9);
    rows = rows_of_others(scores, labels);
    wrong(4);
    expect_named(error_of<cleave::label_error>([&] { rows = rows_of_others(scores, labels); }),
                 "label 4 of word 2 is no index of dim 'row' of extent 4");
    wrong(3);
    losses();
    look_ups();
  }
}
TEST(checked, a_nan_within_a_reduction) {
  constexpr cleave::function mean_log([](auto x) { return mean(log(x)); });
  for (const cleave::grid& g : support::grids(mesh)) {
    g.check(nans);
    Rows x(g, {6, 4});
    Number n(g, {});
    x.fill_by([](const auto& at) { return at[0] == 3 && at[1] == 1 ? -1.0 : 1.0; });
    const std::string what = error_of<cleave::nan_error>([&] { n = mean_log(x); });
    EXPECT_TRUE(contains(what, "made by log at checked_test.cpp:")) << what;
  }
}

// Within loops and branches the same: the operation of the body, whatever iteration made the NaN.
constexpr cleave::function cooled([](auto x, auto times) {
  return cleave::repeat_times(times, x, [](const auto& v) {
    const auto less = v - 1.0;
    return sqrt(less); // repeat_times
  });
});
constexpr cleave::function converging([](auto x, auto tolerance) {
  return cleave::repeat_until(
      x,
      [](const auto& v) {
        const auto less = v - 1.0;
        return log(less); // repeat_until
      },
      [&](const auto& v) { return max(abs(v)) < tolerance; }, 9);
});
constexpr cleave::function eroded([](auto x, auto losses) {
  return cleave::scan(row, x, losses, [](const auto& v, const auto& loss) {
    const auto less = v - loss;
    return sqrt(less); // scan
  });
});
constexpr cleave::function rooted([](auto x, auto which) {
  return cleave::cond(
      which, [](const auto& v) { return v * 2.0; },
      [](const auto& v) {
        return sqrt(v); // cond
      },
      x);
});
unsigned line_of(std::string_view word) {
  std::ifstream source(__FILE__);
  std::string text;
  for (unsigned line = 1; std::getline(source, text); ++line)
    if (text.ends_with("// " + std::string(word))) return line;
  return 0;
}
TEST(checked, a_nan_within_a_loop) {
  using Cols = cleave::tensor<double, mesh(col / data)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    g.check(nans);
    Cols x(g, {5}), y(g, {5});
    const auto expect_made_by = [&](std::string_view op, std::string_view where, const auto& call) {
      const std::string what = error_of<cleave::nan_error>(call);
      EXPECT_TRUE(contains(what, "the first NaN was made by " + std::string(op) +
                                     " at checked_test.cpp:" + std::to_string(line_of(where)) + ":"))
          << what;
      EXPECT_TRUE(contains(what, "f64[col/data] at index [3] on rank ")) << what;
    };
    // In the third iteration: 3, sqrt(2), sqrt(0.41), and the root of a negative number.
    x.fill_by([](const auto& at) { return at[0] == 3 ? 3.0 : 100.0; });
    y = cooled(x, 2);
    expect_made_by("sqrt", "repeat_times", [&] { y = cooled(x, 3); });
    // 3, log(2), and the logarithm of a negative number.
    x.fill_by([](const auto& at) { return at[0] == 3 ? 3.0 : 1e9; });
    expect_made_by("log", "repeat_until", [&] { y = converging(x, 0.1); });
    cleave::tensor<double, mesh(row)> losses(g, {4});
    losses.fill_by([](const auto& at) { return at[0] == 2 ? 10.0 : 0.0; });
    expect_made_by("sqrt", "scan", [&] { y = eroded(x, losses); });
    x.fill_by([](const auto& at) { return at[0] == 3 ? -1.0 : 1.0; });
    y = rooted(x, true);
    expect_made_by("sqrt", "cond", [&] { y = rooted(x, false); });
  }
}

// Always, not only in checked mode.
constexpr cleave::function two([](auto x) { return std::tuple(x + 1.0, x * 2.0); });
TEST(checked, results_in_one_memory) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Whole x(g, {6, 4}), v(g, {6, 4}), w(g, {6, 4});
    const std::string what = error_of<cleave::overlap_error>([&] { two(x).into(v, v); });
    EXPECT_TRUE(contains(what, "result 0 and result 1 of one call are in the same memory")) << what;
    two(x).into(v, w);
    EXPECT_EQ(v.to_global()[0], 1);
    // Devices without rows have no memory there.
    Whole row_of_one(g, {1, 4}), result(g, {1, 4});
    EXPECT_THROW(two(row_of_one).into(result, result), cleave::overlap_error);
    // Views that overlap by an element, too; those that touch do not.
    Kokkos::View<double*, cleave::memory_space> all("all", 48);
    using Raw =
        Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Whole first(g, {6, 4}, Raw(all.data(), 6, 4)), second(g, {6, 4}, Raw(all.data() + 23, 6, 4)),
        third(g, {6, 4}, Raw(all.data() + 24, 6, 4));
    EXPECT_THROW(two(x).into(second, first), cleave::overlap_error);
    two(x).into(third, first);
    two(x).into(x, w);
    EXPECT_EQ(x.to_global()[0], 1);
  }
}

// A loop says how it ended.
constexpr cleave::function relaxed([](auto x, auto tolerance, auto most) {
  auto [y, report] = cleave::repeat_until_reported(
      x, [](const auto& v) { return v * 0.5; }, [&](const auto& v) { return max(abs(v)) < tolerance; }, most);
  return std::tuple(y, report.iterations, report.converged);
});
TEST(checked, loops_report) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Rows x(g, {6, 4}), y(g, {6, 4});
    Count iterations(g, {});
    Flag converged(g, {});
    x.fill(1);
    relaxed(x, 0.1, 100).into(y, iterations, converged);
    EXPECT_EQ(iterations.item(), 4);
    EXPECT_TRUE(converged.item());
    EXPECT_EQ(y.to_global()[23], 0.0625);
    relaxed(x, 0.1, 3).into(y, iterations, converged);
    EXPECT_EQ(iterations.item(), 3);
    EXPECT_FALSE(converged.item());
    EXPECT_EQ(y.to_global()[23], 0.125);
    relaxed(x, 0.1, 0).into(y, iterations, converged);
    EXPECT_EQ(iterations.item(), 0);
    EXPECT_FALSE(converged.item());
    EXPECT_EQ(y.to_global()[23], 1);
  }
}

} // namespace CLEAVE_SOURCE
