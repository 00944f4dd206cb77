// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

// Grids on a part of the ranks, and copies between grids: every pair of layouts, meshes and parts, each element
// counted.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"a"> a;
inline constexpr cleave::axis<"b"> b;
inline constexpr cleave::axis<"stage"> stage;
inline constexpr cleave::mesh square{a, b};
inline constexpr cleave::mesh line{stage};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using cleave::grid;
using cleave::on_ranks;
using cleave::tensor;

/// Every grid of these axes on all ranks, on some consecutive ones, and on every other one.
template <class Mesh>
std::vector<grid> grids(const Mesh& mesh, std::size_t axes) {
  const int n = support::ranks();
  std::vector<grid> all;
  for (const auto& sizes : support::factorings(n, axes)) all.emplace_back(mesh, MPI_COMM_WORLD, sizes);
  const auto add_part = [&](int devices, on_ranks where) {
    if (devices > 0) all.emplace_back(mesh, MPI_COMM_WORLD, support::factorings(devices, axes).back(), where);
  };
  add_part(n / 2, {n - n / 2, 1});
  add_part(n / 2, {n % 2, 2});
  add_part(1, {n - 1, 1});
  return all;
}

double value_at(std::int64_t i, std::int64_t j) { return static_cast<double>(100 * i + j + 1); }

/// Bytes that this rank lacks of its shard of `to`: what is not in its shard of `from`.
template <class From, class To>
std::int64_t lacking(const From& from, const To& to, bool transposed) {
  if (!to.get_grid().active()) return 0;
  const auto &have = from.state().held, &want = to.state().held;
  cleave::box both = want;
  for (int i = 0; i < 2; ++i)
    both.along[static_cast<std::size_t>(i)] = intersect(want[i], have[transposed ? 1 - i : i]);
  const std::int64_t kept = from.get_grid().active() ? both.elements() : 0;
  return (to.local_size() - kept) * 8;
}

/// Copies between all grids for two types of tensor.
template <class From, class To>
void check_pair(bool transposed, bool partial_source, bool partial_target) {
  int wrong = 0, dearer = 0;
  for (const grid& g : grids(square, 2))
    for (const grid& h : grids(line, 1))
      for (const std::array<std::int64_t, 2> e : {std::array<std::int64_t, 2>{5, 7}, {16, 3}, {1, 0}, {2, 1}}) {
        From from(g, {e[0], e[1]});
        To to(h, transposed ? std::array{e[1], e[0]} : e);
        for (double scale : {1.0, -3.0}) {
          from.fill_by([&](const auto& at) { return scale * value_at(at[0], at[1]); });
          to.fill(-1);
          support::reset_charges();
          copy(from, to);
          // The first copy of its kind also agrees on memory.
          if (!partial_source && !partial_target && scale != 1)
            dearer += support::charged_bytes() == lacking(from, to, transposed) ? 0 : 1;
          const auto all = to.to_global();
          if (all.size() != (h.active() ? static_cast<std::size_t>(e[0] * e[1]) : 0u)) ++wrong;
          for (std::size_t k = 0; k < all.size(); ++k) {
            const auto flat = static_cast<std::int64_t>(k), width = transposed ? e[0] : e[1];
            const std::int64_t i = transposed ? flat % width : flat / width,
                               j = transposed ? flat / width : flat % width;
            wrong += all[k] == scale * value_at(i, j) ? 0 : 1;
          }
        }
      }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(dearer, 0);
}

TEST(copy, from_every_layout_to_every_layout) {
  check_pair<tensor<double, square(row / a, col / b)>, tensor<double, line(row / stage, col)>>(false, false, false);
  check_pair<tensor<double, square(row / a, col / b)>, tensor<double, line(row, col / stage)>>(false, false, false);
  check_pair<tensor<double, square(row / b / a, col)>, tensor<double, line(col, row / stage)>>(true, false, false);
  check_pair<tensor<double, square(row, col / b)>, tensor<double, line(col / stage, row)>>(true, false, false);
  check_pair<tensor<double, square(row / b, col)>, tensor<double, line(row, col)>>(false, false, false);
  check_pair<tensor<double, square(row, col)>, tensor<double, line(row / stage, col)>>(false, false, false);
}
TEST(copy, partial_values) {
  check_pair<tensor<double, square(row / a, col, cleave::unreduced(b))>, tensor<double, line(row, col / stage)>>(false,
                                                                                                                 true,
                                                                                                                 false);
  check_pair<tensor<double, square(row, col, cleave::unreduced(a, b))>, tensor<double, line(col, row)>>(true, true,
                                                                                                        false);
  check_pair<tensor<double, square(row / a, col)>, tensor<double, line(row, col, cleave::unreduced(stage))>>(false,
                                                                                                             false,
                                                                                                             true);
  check_pair<tensor<double, square(row / b, col, cleave::unreduced<cleave::reduction::max>(a))>,
             tensor<double, line(row, col, cleave::unreduced<cleave::reduction::min>(stage))>>(false, true, true);
}

TEST(copy, owners_of_replicas_take_turns) {
  const int n = support::ranks();
  if (n < 4) return;
  // Half of the ranks have all, the other half get it: each of the first sends to one of the second.
  const int half = n / 2;
  const grid first(line, MPI_COMM_WORLD, {half}, on_ranks{0, 1}),
      second(line, MPI_COMM_WORLD, {half}, on_ranks{half, 1});
  tensor<float, line(row)> x(first, {1000}), y(second, {1000});
  x.fill(2);
  copy(x, y);
  support::reset_charges();
  copy(x, y);
  EXPECT_EQ(support::charged_bytes(), second.active() ? 4000 : 0);
  EXPECT_EQ(support::charged_calls(), second.active() ? 1 : 0);
  EXPECT_EQ(support::sent_messages(), first.active() ? 1 : 0);
}

// Copies that one rank makes within a kernel of a plan, and the others beside it. What their grid keeps is the same on
// all ranks, so that all of them make it again, or none.
struct copies_within {
  static constexpr std::string_view name = "copies within";
  static inline std::function<void()> copies{};
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& out) const {
    copies();
    cleave::copy_bytes(out.data, in[0].data, out.local.elements() * std::int64_t{sizeof(float)});
  }
};
constexpr cleave::function with_copies([](auto x) {
  return cleave::local<copies_within>(cleave::result<float>(line(row / stage)), exp(x));
});
TEST(copy, what_is_kept_is_the_same_on_all_ranks) {
  const int last = support::ranks() - 1;
  const grid first(line, MPI_COMM_WORLD, {1}, on_ranks{0, 1}), second(line, MPI_COMM_WORLD, {1}, on_ranks{last, 1});
  first.keep_extents(1);
  copies_within::copies = [&] {
    for (const std::int64_t n : {4, 5, 4, 5}) {
      tensor<float, line(row / stage)> x(first, {n}), z(second, {n});
      x.fill(static_cast<float>(n));
      copy(x, z);
      for (const float v : z.to_global()) EXPECT_EQ(v, static_cast<float>(n));
    }
  };
  tensor<float, line(row / stage)> x(first, {3}), y(first, {3});
  if (first.active()) y = with_copies(x);
  else copies_within::copies();
  copies_within::copies = nullptr;
}

TEST(copy, warm_copies_only_send) {
  const grid g(square, MPI_COMM_WORLD, {support::ranks(), 1}), h(line, MPI_COMM_WORLD, {support::ranks()});
  tensor<float, square(row / a, col)> x(g, {6, 8});
  tensor<float, line(row, col / stage)> y(h, {6, 8});
  copy(x, y);
  const std::int64_t bound = g.state().bound().times_made();
  std::int64_t taken = 0;
  {
    const support::heap_count count;
    copy(x, y);
    taken = count();
  }
  if (support::heap_is_left_alone) {
    EXPECT_EQ(taken, 0);
  }
  EXPECT_EQ(g.state().bound().times_made(), bound);
  // Other grids at what may be the same address are other grids.
  for (int again = 0; again < 3; ++again) {
    const grid other(line, MPI_COMM_WORLD, {1}, on_ranks{again % support::ranks(), 1});
    tensor<float, line(row, col / stage)> z(other, {6, 8});
    x.fill(static_cast<float>(again));
    copy(x, z);
    for (const float v : z.to_global()) EXPECT_EQ(v, static_cast<float>(again));
  }
}

TEST(copy, memory_that_overlaps) {
  const int n = support::ranks();
  const grid g(square, MPI_COMM_WORLD, {n, 1});
  const Kokkos::View<double*, cleave::memory_space> memory("memory", static_cast<std::size_t>(6 * n));
  using flat = Kokkos::View<double*, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  // Both begin in the same memory, one shard later on every device.
  const tensor<double, square(row / a)> x(g, {5 * n}, flat(memory.data(), 5)),
      y(g, {5 * n}, flat(memory.data() + 1, 5));
  x.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
  copy(x, y);
  for (std::int64_t i = 0; i < 5 * n; ++i)
    EXPECT_EQ(y.to_global()[static_cast<std::size_t>(i)], static_cast<double>(i));
  copy(y, y);
  EXPECT_EQ(y.to_global()[4], 4);
}

TEST(copy, errors_on_all_ranks_before_any_communication) {
  const grid g(square, MPI_COMM_WORLD, {support::ranks(), 1}), h(line, MPI_COMM_SELF, {1}),
      p(line, MPI_COMM_WORLD, {1}, on_ranks{0, 1});
  const tensor<double, square(row / a, col)> x(g, {4, 6});
  const tensor<double, line(col, row)> small(p, {6, 5}), elsewhere(h, {6, 4});
  support::reset_charges();
  try {
    copy(x, small);
    ADD_FAILURE() << "extents that differ were taken";
  } catch (const cleave::shape_error& e) {
    EXPECT_NE(std::string(e.what()).find("'row'"), std::string::npos) << e.what();
  }
  if (support::ranks() > 1) {
    EXPECT_THROW(copy(x, elsewhere), cleave::grid_error);
  }
  const tensor<double, line(col, row)> missing;
  EXPECT_THROW(copy(x, missing), cleave::grid_error);
  EXPECT_EQ(support::charged_calls(), 0);
}

TEST(parts, statements_run_on_the_devices_only) {
  const int n = support::ranks(), devices = (n + 1) / 2;
  const grid part(line, MPI_COMM_WORLD, {devices}, on_ranks{0, 2});
  EXPECT_EQ(part.active(), support::rank() % 2 == 0);
  EXPECT_EQ(part.rank(), part.active() ? support::rank() / 2 : -1);
  EXPECT_EQ(part.size(), devices);
  tensor<float, line(row / stage, col)> x(part, {9, 4}), y(part, {9, 4});
  tensor<float, line(col)> sums(part, {4});
  tensor<float, line()> total(part, {});
  EXPECT_EQ(x.size(), 36);
  if (!part.active()) {
    EXPECT_EQ(x.local_size(), 0);
    EXPECT_EQ(total.local_size(), 0);
    EXPECT_EQ(x.view().extent(0), 0u);
    EXPECT_EQ(part.comm(), MPI_COMM_NULL);
  }
  x.fill_by([](const auto& at) { return static_cast<float>(at[0]); });
  support::reset_charges();
  y = 2 * x;
  sums = sum(y, row);
  total = sum(x);
  EXPECT_TRUE(part.active() || support::charged_calls() == 0);
  for (const float v : sums.to_global()) EXPECT_EQ(v, 72);
  if (part.active()) {
    EXPECT_EQ(total.item(), 144);
  } else {
    EXPECT_THROW(total.item(), cleave::grid_error);
  }
  const tensor<float, line(row / stage, col)> other(part, {9, 5});
  EXPECT_THROW(y = x + other, cleave::shape_error);
}

TEST(parts, stages_of_a_pipeline) {
  const int n = support::ranks();
  const int half = n > 1 ? n / 2 : 1, second = n > 1 ? half : 0;
  const grid first_stage(line, MPI_COMM_WORLD, {half}, on_ranks{0, 1}),
      second_stage(line, MPI_COMM_WORLD, {half}, on_ranks{second, 1});
  using activations = tensor<double, line(row / stage, col)>;
  activations x(first_stage, {10, 3}), hidden(first_stage, {10, 3}), received(second_stage, {10, 3}),
      y(second_stage, {10, 3});
  x.fill(0.5);
  for (int i = 0; i < 3; ++i) {
    hidden = x * (i + 1.0);
    copy(hidden, received);
    y = received + 1.0;
    for (const double v : y.to_global()) EXPECT_EQ(v, 0.5 * (i + 1.0) + 1.0);
  }
  // One type, two grids.
  EXPECT_THROW(y = hidden + 1.0, cleave::grid_error);
}

TEST(parts, sizes_are_agreed) {
  const int n = support::ranks();
  const auto make = [](std::int64_t devices, on_ranks where) -> std::string {
    try {
      grid(line, MPI_COMM_WORLD, {devices}, where);
    } catch (const cleave::mesh_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(make(n, {0, 1}), "");
  EXPECT_EQ(make(1, {n - 1, 100}), "");
  for (const std::string& what : {make(n, {1, 1}), make(n + 1, {0, 1}), make(1, {-1, 1}), make(1, {0, 0})})
    EXPECT_NE(what.find("the communicator has the ranks 0 to " + std::to_string(n - 1)), std::string::npos) << what;
  EXPECT_EQ(make(1, {support::rank(), 1}).empty(), n == 1);
  // What some ranks take for all of them is outside for the others.
  const auto of_some = [&](bool part, on_ranks where) {
    const std::optional<on_ranks> given = part ? std::optional(where) : std::nullopt;
    EXPECT_THROW(grid(line, MPI_COMM_WORLD, {n}, given), cleave::mesh_error);
  };
  of_some(support::rank() == n - 1, {-1, 1});
  if (n > 1) {
    of_some(support::rank() == n - 1, {0, 1});
    of_some(true, support::rank() == 0 ? on_ranks{0, 1} : on_ranks{.list = {0}});
  }
}
TEST(parts, sizes_whose_product_wraps) {
  const auto error_of = [](std::initializer_list<std::int64_t> sizes, const std::optional<on_ranks>& part) {
    try {
      grid(square, MPI_COMM_WORLD, sizes, part);
    } catch (const cleave::mesh_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  // 2^64 + 2, 2^64 + 1, and what only 64 bits count.
  for (const auto& [a, b] : {std::pair<std::int64_t, std::int64_t>{3, 6148914691236517206},
                             {274177, 67280421310721},
                             {std::int64_t{1} << 31, 1}})
    for (const std::optional<on_ranks>& part : {std::optional<on_ranks>(), std::optional(on_ranks{0, 2})}) {
      const std::string what = error_of({a, b}, part);
      EXPECT_NE(what.find("multiply to more than 2^31 - 1 devices"), std::string::npos) << what;
    }
}

using table = tensor<float, line(row / stage, col)>;
TEST(parts, of_a_list) {
  const int n = support::ranks();
  std::vector<int> backwards;
  for (int r = n; r-- > 0;) backwards.push_back(r);
  const grid g(line, MPI_COMM_WORLD, {n}, on_ranks{.list = backwards});
  EXPECT_EQ(g.rank(), n - 1 - support::rank());
  table x(g, {5 * n, 3});
  x.fill_by([](const auto& at) { return static_cast<float>(10 * at[0] + at[1]); });
  EXPECT_EQ(x.offset()[0], 5 * g.rank());
  table y(g, {5 * n, 3});
  y = x + shift(x, row, cleave::constant<1>{});
  const auto all = y.to_global();
  for (std::int64_t i = 1; i < 5 * n; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(3 * i)], static_cast<float>(20 * i - 10));
  const grid plain(line, MPI_COMM_WORLD, {n}), one(line, MPI_COMM_WORLD, {1}, on_ranks{.list = {n - 1}});
  table there(plain, {5 * n, 3}), here(one, {5 * n, 3});
  cleave::copy(y, there);
  EXPECT_EQ(there.to_global(), all);
  cleave::copy(y, here);
  EXPECT_EQ(here.local_size(), support::rank() == n - 1 ? 15 * n : 0);
  const auto make = [](std::int64_t devices, std::vector<int> list) -> std::string {
    try {
      grid(line, MPI_COMM_WORLD, {devices}, on_ranks{.list = std::move(list)});
    } catch (const cleave::mesh_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(make(1, {n}).find("device 0 is rank " + std::to_string(n)), std::string::npos);
  EXPECT_NE(make(2, {0, 0}).find("each rank once"), std::string::npos);
  EXPECT_NE(make(2, {0}).find("1 entries"), std::string::npos);
  EXPECT_EQ(make(1, {support::rank()}).empty(), n == 1);
}

TEST(whole, comes_to_one_rank_and_goes_from_there) {
  const int n = support::ranks();
  for (int root : {0, n - 1}) {
    const grid g(line, MPI_COMM_WORLD, {n});
    table x(g, {2 * n + 1, 3}), y(g, {2 * n + 1, 3});
    x.fill_by([](const auto& at) { return static_cast<float>(10 * at[0] + at[1]); });
    const std::vector<float> all = gather_to(x, root);
    EXPECT_EQ(all.empty(), support::rank() != root);
    const std::vector<float> everywhere = x.to_global();
    EXPECT_TRUE(all.empty() || all == everywhere);
    scatter_from(all, root, y);
    EXPECT_EQ(y.to_global(), x.to_global());
    std::vector<float> wrong(support::rank() == root ? 5 : 0);
    EXPECT_THROW(scatter_from(wrong, root, y), cleave::shape_error);
  }
  EXPECT_THROW(gather_to(table(grid(line, MPI_COMM_WORLD, {n}), {4, 3}), n), cleave::mesh_error);
}

} // namespace CLEAVE_SOURCE
