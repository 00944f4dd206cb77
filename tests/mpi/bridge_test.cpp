// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/redistribute/bridge.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Copies between grids of communicators that MPI_Comm_split made. Each element and each byte is counted, and mistakes
// are exceptions on all ranks of the bridge.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"a"> a;
inline constexpr cleave::axis<"b"> b;
inline constexpr cleave::axis<"stage"> stage;
inline constexpr cleave::mesh square{a, b};
inline constexpr cleave::mesh line{stage};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using cleave::bridge;
using cleave::grid;
using cleave::tensor;

/// Some ranks of MPI_COMM_WORLD with a communicator of their own, in ascending or descending order.
class team {
 public:
  template <class Belongs>
  team(const Belongs& belongs, bool backwards) : mine_(belongs(support::rank())) {
    for (int r = 0; r < support::ranks(); ++r) size_ += belongs(r) ? 1 : 0;
    MPI_Comm_split(MPI_COMM_WORLD, mine_ ? 0 : MPI_UNDEFINED, backwards ? -support::rank() : support::rank(), &comm_);
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;
  ~team() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  bool mine() const { return mine_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }

 private:
  bool mine_;
  int size_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

double value_at(std::int64_t i, std::int64_t j) { return static_cast<double>(100 * i + j + 1); }

/// Bytes that this rank lacks of its shard of `to`: what is not in its shard of `from`.
template <class From, class To>
std::int64_t lacking(const From& from, const To& to, bool transposed) {
  const bool has_source = static_cast<bool>(from), has_target = static_cast<bool>(to);
  if (!has_target || !to.get_grid().active()) return 0;
  if (!has_source || !from.get_grid().active()) return to.local_size() * 8;
  cleave::box both = to.state().held;
  for (int i = 0; i < 2; ++i)
    both.along[static_cast<std::size_t>(i)] = intersect(both[i], from.state().held[transposed ? 1 - i : i]);
  return (to.local_size() - both.elements()) * 8;
}

/// The bytes of what the ranks agree on in each copy.
std::int64_t agreement() {
  const std::array<std::int64_t, 4> mine{};
  std::array<std::int64_t, 4> all{};
  support::reset_charges();
  MPI_Allreduce(mine.data(), all.data(), 4, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return support::charged_bytes();
}

template <class Source, class Target>
struct copies {
  const team &first, &second;
  bool transposed, counted;

  void check(const bridge& over, std::array<std::int64_t, 2> e) const {
    const std::int64_t overhead = agreement();
    for (const auto& sizes : support::factorings(first.size(), 2)) {
      Source from;
      Target to;
      if (first.mine()) from = Source(grid(square, first.comm(), {sizes[0], sizes[1]}), {e[0], e[1]});
      if (second.mine())
        to = Target(grid(line, second.comm(), {second.size()}), transposed ? std::array{e[1], e[0]} : e);
      int wrong = 0;
      for (const double scale : {1.0, -3.0}) {
        if (from) from.fill_by([&](const auto& at) { return scale * value_at(at[0], at[1]); });
        if (to) to.fill(-1);
        support::reset_charges();
        copy(from, to, over);
        // The first time the ranks tell each other who they are.
        if (scale != 1 && counted) {
          EXPECT_EQ(support::charged_bytes() - overhead, lacking(from, to, transposed));
        }
        const std::vector<double> all = to ? to.to_global() : std::vector<double>();
        EXPECT_EQ(std::ssize(all), to ? e[0] * e[1] : 0);
        for (std::size_t k = 0; k < all.size(); ++k) {
          const auto flat = static_cast<std::int64_t>(k), width = transposed ? e[0] : e[1];
          const std::int64_t i = transposed ? flat % width : flat / width, j = transposed ? flat / width : flat % width;
          wrong += all[k] == scale * value_at(i, j) ? 0 : 1;
        }
      }
      EXPECT_EQ(wrong, 0);
    }
  }
};

template <class Source, class Target>
void check_teams(bool transposed, bool counted) {
  const int n = support::ranks();
  const bridge over(MPI_COMM_WORLD);
  const auto all = [](int) { return true; };
  const auto lower = [&](int r) { return r < (n + 1) / 2; };
  const auto upper = [&](int r) { return r >= n / 2; }; // has the one in the middle too
  const auto rest = [&](int r) { return r >= (n + 1) / 2; };
  const auto even = [](int r) { return r % 2 == 0; };
  const auto last = [&](int r) { return r == n - 1; };
  const auto both_ways = [&](const auto& f, const auto& s) {
    for (const bool backwards : {false, true}) {
      const team first(f, false), second(s, backwards);
      if (first.size() == 0 || second.size() == 0) continue;
      for (const std::array<std::int64_t, 2> e : {std::array<std::int64_t, 2>{7, 5}, {1, 0}, {2, 3}})
        copies<Source, Target>{first, second, transposed, counted}.check(over, e);
    }
  };
  both_ways(lower, rest);  // nothing in common
  both_ways(lower, upper); // one rank in common, if n is odd
  both_ways(even, all);
  both_ways(all, last);
  both_ways(rest, even); // rank 1 of 3 has neither
}

TEST(bridges, from_every_team_to_every_team) {
  check_teams<tensor<double, square(row / a, col / b)>, tensor<double, line(row / stage, col)>>(false, true);
  check_teams<tensor<double, square(row / b / a, col)>, tensor<double, line(col / stage, row)>>(true, true);
  check_teams<tensor<double, square(row / b, col)>, tensor<double, line(row, col)>>(false, true);
}
TEST(bridges, partial_values) {
  check_teams<tensor<double, square(row / a, col, cleave::unreduced(b))>, tensor<double, line(row, col / stage)>>(
      false, false);
  check_teams<tensor<double, square(row, col / a)>, tensor<double, line(col, row, cleave::unreduced(stage))>>(true,
                                                                                                              false);
}

using rows = tensor<double, line(row / stage, col)>;
using columns = tensor<double, line(row, col / stage)>;
TEST(bridges, grids_on_a_part_of_their_communicator) {
  const int n = support::ranks();
  const bridge over(MPI_COMM_WORLD);
  const team lower([&](int r) { return r < (n + 1) / 2; }, false), upper([&](int r) { return r >= n / 2; }, false);
  rows x;
  columns y;
  if (lower.mine()) x = rows(grid(line, lower.comm(), {1}, cleave::on_ranks{lower.size() - 1, 1}), {5, 4});
  if (upper.mine()) y = columns(grid(line, upper.comm(), {upper.size()}), {5, 4});
  if (x) x.fill_by([](const auto& at) { return value_at(at[0], at[1]); });
  copy(x, y, over);
  if (y) {
    EXPECT_EQ(y.to_global()[7], value_at(1, 3));
  }
}

TEST(bridges, warm_copies_and_new_partners) {
  const int n = support::ranks();
  const bridge over(MPI_COMM_WORLD);
  const team lower([&](int r) { return r < (n + 1) / 2; }, false), all([](int) { return true; }, true);
  rows x;
  if (lower.mine()) x = rows(grid(line, lower.comm(), {lower.size()}), {6, 8});
  const grid whole(line, all.comm(), {n}), other(line, all.comm(), {n});
  // The source stays, and the target is another one at every turn, also where this rank sees only one of both.
  columns y(whole, {6, 8}), z(other, {6, 8});
  for (int turn = 0; turn < 3; ++turn) {
    if (x) x.fill(turn + 1.0);
    copy(x, y, over);
    copy(x, z, over);
    for (const columns* t : {&y, &z})
      for (const double v : t->to_global()) EXPECT_EQ(v, turn + 1.0);
  }
  // In their order, copies agree by one all-reduce each; out of it they are right too.
  const std::int64_t overhead = agreement();
  support::reset_charges();
  copy(x, y, over);
  copy(x, z, over);
  EXPECT_EQ(support::charged_bytes() - 2 * overhead, lacking(x, y, false) + lacking(x, z, false));
  if (x) x.fill(7);
  copy(x, z, over);
  copy(x, y, over);
  for (const columns* t : {&y, &z})
    for (const double v : t->to_global()) EXPECT_EQ(v, 7);
}

TEST(bridges, views_of_the_caller) {
  const int n = support::ranks();
  const bridge over(MPI_COMM_WORLD);
  const team lower([&](int r) { return r < (n + 1) / 2; }, false), all([](int) { return true; }, false);
  const grid whole(line, all.comm(), {n});
  rows x;
  if (lower.mine()) {
    const grid g(line, lower.comm(), {lower.size()});
    const auto local = rows(g, {6, 4}).local_extents();
    const Kokkos::View<double**, Kokkos::LayoutLeft> columns_first("x", static_cast<std::size_t>(local[0]), 4);
    x.rebind(rows(g, {6, 4}, columns_first));
    x.fill_by([](const auto& at) { return value_at(at[0], at[1]); });
  }
  const auto local = columns(whole, {6, 4}).local_extents();
  const Kokkos::View<double**, Kokkos::LayoutLeft> result("y", 6, static_cast<std::size_t>(local[1]));
  const columns y(whole, {6, 4}, result);
  copy(x, y, over);
  const auto values = support::read(result);
  for (std::int64_t j = 0; j < local[1]; ++j)
    EXPECT_EQ(values(5, static_cast<std::size_t>(j)), value_at(5, y.offset()[1] + j));
}

template <class Error, class Call>
void expect_everywhere(std::string_view words, Call&& call) {
  std::string said;
  try {
    call();
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find(words), std::string::npos) << said;
}

TEST(bridges, mistakes_are_seen_by_all_ranks) {
  const int n = support::ranks();
  const bridge over(MPI_COMM_WORLD);
  const team lower([&](int r) { return r < (n + 1) / 2; }, false), last([&](int r) { return r == n - 1; }, false);
  rows x, none;
  columns y, longer, missing;
  if (lower.mine()) x = rows(grid(line, lower.comm(), {lower.size()}), {6, 4});
  if (last.mine()) {
    const grid g(line, last.comm(), {1});
    y = columns(g, {6, 4});
    longer = columns(g, {7, 4});
  }
  expect_everywhere<cleave::shape_error>("dim 'row' has extent 6 in one tensor and 7", [&] { copy(x, longer, over); });
  expect_everywhere<cleave::grid_error>("no rank of the bridge has the source", [&] { copy(none, y, over); });
  expect_everywhere<cleave::grid_error>("no rank of the bridge has the target", [&] { copy(x, missing, over); });
  if (n > 1) {
    // A rank that forgets its tensor, a tensor of every rank, and two teams at once.
    expect_everywhere<cleave::grid_error>(n > 2 ? "device 0 of the grid of the source is on 0 ranks" : "no rank",
                                          [&] { copy(support::rank() == 0 ? none : x, y, over); });
    const columns alone(grid(line, MPI_COMM_SELF, {1}), {6, 4});
    expect_everywhere<cleave::grid_error>("device 0 of the grid of the target is on " + std::to_string(n) + " ranks",
                                          [&] { copy(x, alone, over); });
    const columns uneven(grid(line, MPI_COMM_SELF, {1}), {6 + support::rank() % 2, 4});
    expect_everywhere<cleave::grid_error>("do not agree on the grid of the target", [&] { copy(x, uneven, over); });
  }
  // One rank may not be written.
  columns constants;
  if (last.mine()) {
    const grid g(line, last.comm(), {1});
    const Kokkos::View<const double**, Kokkos::LayoutRight> values = Kokkos::View<double**, Kokkos::LayoutRight>("v", 6,
                                                                                                                 4);
    constants.rebind(columns(g, {6, 4}, values));
  }
  expect_everywhere<cleave::view_error>("View of constants", [&] { copy(x, constants, over); });
  // Other types on some ranks.
  if (n > 1) {
    const tensor<double, line(row, col)> replicas(grid(line, MPI_COMM_WORLD, {n}), {6, 4});
    columns whole(replicas.get_grid(), {6, 4});
    expect_everywhere<cleave::grid_error>("the same two types", [&] {
      if (support::rank() == 0) copy(replicas, whole, over);
      else copy(whole, whole, over);
    });
  }
  // The bridge still works.
  if (x) x.fill(3);
  copy(x, y, over);
  if (y) {
    EXPECT_EQ(y.to_global().back(), 3);
  }
}

} // namespace CLEAVE_SOURCE
