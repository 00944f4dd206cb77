// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/redistribute/distributions.hpp>
#include <cleave/redistribute/slabs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

// The promises of docs/13-semantics.md that do not depend on element types or on several grids: memory, aliasing,
// repeatability, errors, and the cases at the edge.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using Rows = f64<mesh(row / data, col)>;
using Columns = f64<mesh(row, col / data)>;
using Turned = f64<mesh(col, row / data)>;
using Square = f64<mesh(row, col)>;
using flat_view =
    Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

std::vector<cleave::grid> grids() { return support::grids(mesh); }
template <class At>
double wave(const At& at) {
  double sum = 0.3;
  for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
  return std::sin(sum);
}
double wave_at(std::int64_t i, std::int64_t j) { return wave(std::array{i, j}); }

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
template <class F>
std::string mpi_error_of(F&& f) {
  try {
    f();
  } catch (const cleave::mpi_error& e) {
    return e.what();
  }
  return "";
}

// Every time-stepping code writes old = u.
constexpr cleave::function step([](auto u) { return u + 1.0; });
TEST(semantics, tensors_are_values) {
  for (const cleave::grid& g : grids()) {
    Rows u(g, {6, 4}), old(g, {6, 4}), change(g, {6, 4});
    u.fill(1);
    const double* const memory = old.data();
    old = u;
    EXPECT_EQ(old.data(), memory);
    u = step(u);
    change = u - old;
    EXPECT_EQ(change.to_global(), std::vector<double>(24, 1.0));
    const Rows copy = u;
    u = 7;
    EXPECT_EQ(copy.to_global(), std::vector<double>(24, 2.0));
    // An aggregate is copied as its tensors are.
    std::array<Rows, 2> pair{u, old}, saved = pair;
    pair[0] = 3;
    EXPECT_EQ(saved[0].to_global()[0], 7);
    EXPECT_EQ(u.to_global()[0], 7);
  }
}
TEST(semantics, moves_take_memory_over) {
  for (const cleave::grid& g : grids()) {
    Rows x(g, {6, 4}), y(g, {6, 4});
    x.fill(1);
    y.fill(2);
    const double *const of_x = x.data(), *const of_y = y.data();
    std::swap(x, y);
    EXPECT_EQ(x.data(), of_y);
    EXPECT_EQ(y.data(), of_x);
    x = std::move(y);
    EXPECT_EQ(x.data(), of_x);
    EXPECT_FALSE(static_cast<bool>(y));
    // Without data it becomes a copy; with other extents it gets new memory.
    y = x;
    EXPECT_TRUE(y.local_size() == 0 || y.data() != of_x);
    EXPECT_EQ(y.to_global(), x.to_global());
    Rows longer(g, {9, 4});
    longer.fill(5);
    y = longer;
    EXPECT_EQ(y.to_global(), longer.to_global());
    const Rows none;
    y = none;
    EXPECT_FALSE(static_cast<bool>(y));
  }
}
TEST(semantics, aliases_share_their_elements) {
  for (const cleave::grid& g : grids()) {
    Rows x(g, {6, 4}), y(g, {6, 4});
    const Rows same = x.alias();
    EXPECT_EQ(same.data(), x.data());
    x = 2.0 * y + 3.0;
    EXPECT_EQ(same.to_global(), std::vector<double>(24, 3.0));
    const double* before = x.data();
    x = x + 1.0;
    EXPECT_EQ(x.data(), before);
    EXPECT_EQ(same.to_global()[0], 4);
  }
}
TEST(semantics, wrapped_views_get_the_values) {
  for (const cleave::grid& g : grids()) {
    Rows x(g, {6, 4});
    x.fill(3);
    const auto local = x.local_extents();
    const Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space> view("v",
                                                                                 static_cast<std::size_t>(local[0]),
                                                                                 static_cast<std::size_t>(local[1]));
    Rows wrapped(g, {6, 4}, view);
    const auto first = [&] { return view.extent(0) == 0 ? -1.0 : support::read(view)(0, 0); };
    const double empty = view.extent(0) == 0 ? -1.0 : 0.0;
    wrapped = x;
    EXPECT_EQ(first(), empty + (empty == 0 ? 3 : 0));
    // Moved into and from, the View keeps its place.
    wrapped = step(x);
    Rows other(g, {6, 4});
    other = std::move(wrapped);
    EXPECT_TRUE(view.extent(0) == 0 || other.data() != view.data());
    EXPECT_EQ(other.to_global(), std::vector<double>(24, 4.0));
    Rows made(g, {6, 4});
    made.fill(9);
    Rows again(g, {6, 4}, view);
    again = std::move(made);
    EXPECT_EQ(first(), empty + (empty == 0 ? 9 : 0));
    EXPECT_THROW((again = Rows(g, {5, 4})), cleave::shape_error);
    // A tensor without data takes it over.
    Rows late;
    late = Rows(g, {6, 4}, view);
    EXPECT_EQ(late.data(), view.data());
  }
}
// What a statement holds lives as long as it does.
TEST(semantics, statements_share_what_they_read) {
  for (const cleave::grid& g : grids()) {
    Rows y(g, {6, 4});
    const auto made = [&] {
      Rows x(g, {6, 4});
      x.fill(2);
      return sqrt(x * x) + 1.0;
    };
    const auto statement = made();
    y = statement;
    EXPECT_EQ(y.to_global(), std::vector<double>(24, 3.0));
  }
}

TEST(semantics, shards_are_right_ordered_as_written) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(deep, row / data, col / model)> x(g, {3, 5, 7});
    x.fill_by([](const auto& at) { return static_cast<double>(100 * at[0] + 10 * at[1] + at[2]); });
    const auto extents = x.local_extents(), first = x.offset();
    const std::vector<double> shard = support::elements(x);
    auto next = shard.begin();
    int wrong = 0;
    for (std::int64_t i = 0; i < extents[0]; ++i)
      for (std::int64_t j = 0; j < extents[1]; ++j)
        for (std::int64_t k = 0; k < extents[2]; ++k)
          wrong += *next++ == static_cast<double>(100 * (first[0] + i) + 10 * (first[1] + j) + first[2] + k) ? 0 : 1;
    EXPECT_EQ(wrong, 0);
    static_assert(std::is_same_v<decltype(x.view())::array_layout, Kokkos::LayoutRight>);
  }
}

constexpr cleave::function swapped([](auto x, auto y) { return std::tuple(y + 0.0, x + 0.0); });
constexpr cleave::function mixed([](auto x, auto y) { return dot(x, rename(y, row, deep), col) * 1.0; });

TEST(semantics, results_may_be_arguments) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t n = 6;
    Rows x(g, {n, n}), y(g, {n, n});
    const auto restart = [&] {
      x.fill_by([](const auto& at) { return wave(at); });
      y.fill_by([](const auto& at) { return wave(at) + 5; });
    };
    const auto expect = [&](const auto& got, const char* what, const auto& want) {
      const auto all = got.to_global();
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          EXPECT_NEAR(all[static_cast<std::size_t>(i * n + j)], want(i, j), 1e-12) << what;
    };
    restart();
    y = y * y - y;
    expect(y, "twice the same argument", [](auto i, auto j) { return (wave_at(i, j) + 5) * (wave_at(i, j) + 4); });
    restart();
    swapped(x, y).into(x, y);
    expect(x, "swapped", [](auto i, auto j) { return wave_at(i, j) + 5; });
    expect(y, "swapped", wave_at);
    restart();
    y = y - sum(y, row);
    expect(y, "its own reduction", [&](auto i, auto j) {
      double total = 0;
      for (std::int64_t k = 0; k < n; ++k) total += wave_at(k, j) + 5;
      return wave_at(i, j) + 5 - total;
    });
    // A product into one of its operands.
    restart();
    f64<mesh(row / data, deep)> c(g, {n, n}, flat_view(x.data(), x.view().extent(0), x.view().extent(1)));
    c = mixed(x, y);
    expect(c, "a product over its operand", [&](auto i, auto j) {
      double total = 0;
      for (std::int64_t k = 0; k < n; ++k) total += wave_at(i, k) * (wave_at(j, k) + 5);
      return total;
    });
  }
}

TEST(semantics, wrapped_memory_may_overlap) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t n = 12;
    const Rows shape(g, {n, n});
    const Turned turned_shape(g, {n, n});
    const Columns other_shape(g, {n, n});
    const auto size = static_cast<std::size_t>(n * n);
    const Kokkos::View<double*, cleave::memory_space> memory("memory", size + 5);
    const auto wrap = [&](const auto& like, std::size_t at) {
      return std::remove_cvref_t<decltype(like)>(g, {n, n},
                                                 flat_view(memory.data() + at, like.view().extent(0),
                                                           like.view().extent(1)));
    };
    const auto check = [&](auto to, const char* what, bool turned) {
      Rows x = wrap(shape, 0);
      x.fill_by([](const auto& at) { return wave(at); });
      to = 2.0 * x;
      const auto all = to.to_global();
      int wrong = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          wrong += all[static_cast<std::size_t>(turned ? j * n + i : i * n + j)] == 2 * wave_at(i, j) ? 0 : 1;
      EXPECT_EQ(wrong, 0) << what;
    };
    check(wrap(turned_shape, 0), "in another order", true);
    check(wrap(other_shape, 0), "in another layout", false);
    check(wrap(shape, 5), "a few elements later", false);
  }
}

TEST(semantics, runs_repeat_bit_by_bit) {
  using Left = cleave::tensor<float, mesh(row / data, deep / model)>;
  using Right = cleave::tensor<float, mesh(deep / model, col)>;
  constexpr cleave::function program([](auto a, auto b) { return softmax(tanh(dot(a, b, deep)), col) + sum(b, deep); });
  const auto run = [&](const cleave::grid& g) {
    Left a(g, {33, 257});
    Right b(g, {257, 19});
    cleave::tensor<float, mesh(row, col)> y(g, {33, 19});
    a.fill_by([](const auto& at) { return static_cast<float>(wave(at)); });
    b.fill_by([](const auto& at) { return static_cast<float>(3 * wave(at)); });
    y = program(a, b);
    auto first = y.to_global();
    y = program(a, b);
    EXPECT_TRUE(same_bits(first, y.to_global()));
    return first;
  };
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const auto once = run({mesh, MPI_COMM_WORLD, sizes}), again = run({mesh, MPI_COMM_WORLD, sizes});
    EXPECT_TRUE(same_bits(once, again));
  }
}

/// Whether the shards of all ranks are the same bits.
template <class T>
bool replicas_agree(const T& x) {
  const auto mine = support::elements(x);
  auto first = mine;
  MPI_Bcast(first.data(), static_cast<int>(mine.size() * sizeof(mine[0])), MPI_BYTE, 0, MPI_COMM_WORLD);
  return support::over_ranks(same_bits(first, mine) ? 0 : 1) == 0;
}

TEST(semantics, replicas_are_the_same_bits) {
  for (const cleave::grid& g : grids())
    // Short and long messages, for which MPI has different algorithms.
    for (const std::int64_t n : {1, 7, 1000, 70000}) {
      cleave::tensor<float, mesh(deep / data / model, col)> x(g, {support::ranks(), n});
      cleave::tensor<float, mesh(col)> total(g, {n}), most(g, {n});
      x.fill_by([](const auto& at) {
        return static_cast<float>(wave(at)) * std::ldexp(1.0f, static_cast<int>(at[0] * 7 % 13));
      });
      total = sum(x, deep);
      most = max(x, deep);
      EXPECT_TRUE(replicas_agree(total)) << n;
      EXPECT_TRUE(replicas_agree(most)) << n;
    }
}

// Groups over one axis, of which one is on one node and others are on two, and values of different length that could
// share a message.
constexpr cleave::function two_sums([](auto u, auto v) { return std::tuple(sum(u, deep), sum(v, deep)); });
TEST(semantics, replicas_are_the_same_bits_on_nodes_that_groups_share) {
  const int n = support::ranks(), before = cleave::comm::node_ranks();
  if (n < 4 || n % 2 != 0) return;
  for (const int node : {before, n / 2 + 1, n - 1})
    for (const auto mode : {cleave::comm::transport::automatic, cleave::comm::transport::mpi}) {
      const auto mode_before = cleave::comm::transport_mode();
      cleave::comm::node_ranks() = node;
      cleave::comm::transport_mode() = mode;
      const cleave::grid g(mesh, MPI_COMM_WORLD, {2, n / 2});
      // Communicators of nodes are made when a group is first asked for.
      g.state().group_of(cleave::axis_set{}.with(1));
      cleave::comm::node_ranks() = before;
      cleave::comm::transport_mode() = mode_before;
      for (const std::int64_t length : {1, 1000, 20000}) {
        cleave::tensor<float, mesh(deep / model, col)> x(g, {n / 2, length});
        cleave::tensor<float, mesh(deep / model, row / data, col)> z(g, {n / 2, 3, length});
        cleave::tensor<float, mesh(col)> total(g, {length}), other(g, {length});
        cleave::tensor<float, mesh(row / data, col)> part(g, {3, length});
        const auto value = [](const auto& at) {
          const float v[] = {1e8F, 1, -1e8F, 1};
          return v[at[0] % 4] * (1 + 0.1F * static_cast<float>(at[0] / 4));
        };
        x.fill_by(value);
        z.fill_by(value);
        total = sum(x, deep);
        two_sums(x, z).into(other, part);
        EXPECT_TRUE(replicas_agree(total)) << node << " " << length;
        EXPECT_TRUE(replicas_agree(other)) << node << " " << length;
      }
    }
}

TEST(semantics, two_grids_are_told_before_any_communication) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1}), h(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  Rows x(g, {4, 4}), y(h, {4, 4});
  Square whole(h, {4, 4});
  f64<mesh(col)> sums(g, {4});
  support::reset_charges();
  EXPECT_THROW(x = x + y, cleave::grid_error);
  EXPECT_THROW(whole = x, cleave::grid_error);
  EXPECT_THROW(sums = sum(y, row), cleave::grid_error);
  EXPECT_EQ(support::charged_calls(), 0);
}

TEST(semantics, input_is_agreed_when_tensors_are_made_and_never_again) {
  for (const cleave::grid& g : grids()) {
    support::reset_charges();
    Rows x(g, {6, 5}), y(g, {6, 5});
    EXPECT_EQ(support::charged_calls(), 2);
    support::reset_charges();
    y = x * 2.0;
    // The first call with these sizes binds the plan, allocates its workspace, and memory for results that overlap
    // arguments. All devices hear whether there is memory everywhere.
    EXPECT_EQ(support::charged_calls(), support::ranks() > 1 ? 3 : 0);
    support::reset_charges();
    y = x * 2.0;
    EXPECT_EQ(support::charged_calls(), 0);
  }
}

TEST(semantics, failed_calls_of_mpi_break_the_grid) {
  const support::only_mpi no_windows;
  const cleave::grid fine(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const auto broken_by = [&](auto&& use, std::int64_t after = 0) {
    cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
    Rows x(g, {2 * support::ranks(), 3});
    f64<mesh(col)> sums(g, {3});
    Square whole(g, {2 * support::ranks(), 3});
    const f64<mesh(col, row)> turned(g, {3, 2 * support::ranks()});
    sums = sum(x, row);
    const std::string what = mpi_error_of([&] {
      support::fail_calls(1, after);
      use(g, x, sums, whole, turned);
    });
    support::fail_calls(0);
    const bool failed = !what.empty();
    EXPECT_EQ(failed, g.state().broken()) << what;
    if (failed) {
      // Nothing is called any more, not even what would need no communication.
      support::reset_charges();
      const std::string again = "cleave: a call of MPI failed on this grid earlier; it cannot be used any more";
      EXPECT_EQ(mpi_error_of([&] { sums = sum(x, row); }), again);
      EXPECT_EQ(mpi_error_of([&] { x = x + 1.0; }), again);
      EXPECT_EQ(mpi_error_of([&] { Rows(g, {1, 1}); }), again);
      EXPECT_EQ(mpi_error_of([&] { x.to_global(); }), again);
      EXPECT_EQ(mpi_error_of([&] { gather_to(x, 0); }), again);
      EXPECT_EQ(support::charged_calls(), 0);
    }
    return what;
  };
  const bool several = support::ranks() > 1;
  const std::string reduced = broken_by([](auto&, auto& x, auto& sums, auto&, auto&) { sums = sum(x, row); });
  EXPECT_EQ(reduced.find("cleave: MPI_Allreduce failed: ") == 0, several) << reduced;
  EXPECT_EQ(broken_by([](auto&, auto& x, auto&, auto& whole, auto&) { whole = x; }).empty(), !several);
  EXPECT_EQ(broken_by([](auto&, auto& x, auto&, auto&, auto&) { x.to_global(); }).empty(), !several);
  EXPECT_EQ(broken_by([](auto&, auto& x, auto&, auto&, auto& turned) { copy(x, turned); }).empty(), !several);
  EXPECT_FALSE(broken_by([](auto& g, auto&, auto&, auto&, auto&) { Rows(g, {1, 1}); }).empty());
  // Whichever call it is.
  for (std::int64_t after = 0; after < 3; ++after) {
    const bool fails = several || after == 0;
    EXPECT_EQ(broken_by([](auto&, auto& x, auto&, auto&, auto&) { gather_to(x, 0); }, after).empty(), !fails) << after;
    const auto scatter = [](auto&, auto& x, auto&, auto&, auto&) {
      scatter_from(std::vector<double>(static_cast<std::size_t>(6 * support::ranks())), 0, x);
    };
    EXPECT_EQ(broken_by(scatter, after).empty(), !(several || after < 2)) << after;
    const auto in_slabs = [](auto&, auto& x, auto&, auto&, auto&) { gather_slabs(x, 0, 1 << 20, [](auto...) {}); };
    EXPECT_FALSE(broken_by(in_slabs, after).empty()) << after;
  }
  const auto blocks = [](auto&, auto& x, auto&, auto&, auto&) {
    const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> mine("mine", 2, 3);
    from_blocks(mine, {{}, {}}, x);
  };
  EXPECT_FALSE(broken_by(blocks).empty());
  // Other grids on the same ranks are as they were.
  Rows x(fine, {3, 3});
  x = x + 1.0;
  EXPECT_EQ(x.to_global(), std::vector<double>(9, 1.0));
}

/// Binding a plan sets up memory that ranks share, which communicates too.
TEST(semantics, failures_while_plans_are_bound_break_the_grid) {
  using Long = f64<mesh(row / data, deep)>;
  const std::int64_t n = support::ranks();
  // Longer than the slots that a group begins with.
  constexpr std::int64_t wide = 100000;
  for (const bool strided : {false, true}) {
    const cleave::grid g(mesh, MPI_COMM_WORLD, {n, 1});
    const Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space> padded("padded", 2, wide + 1);
    const auto inside = Kokkos::subview(padded, Kokkos::ALL, std::pair<std::size_t, std::size_t>(0, wide));
    const Long x = strided ? Long(g, {2 * n, wide}, inside) : Long(g, {2 * n, wide});
    const Rows few(g, {2 * n, 3});
    f64<mesh(deep)> sums(g, {wide});
    f64<mesh(col)> sums_of_few(g, {3});
    // This makes the group.
    sums_of_few = sum(few, row);
    const std::string what = mpi_error_of([&] {
      support::fail_set_up(1);
      sums = sum(x, row);
    });
    support::fail_set_up(0);
    // Memory is set up within nodes, so it is certain to fail where all ranks are on one.
    const bool on_one_node = n > 1 && cleave::comm::is_direct(g.state().group_of(cleave::axis_set{}.with(0)));
    EXPECT_TRUE(!on_one_node || !what.empty());
    EXPECT_EQ(g.state().broken(), !what.empty());
    const std::string again = "cleave: a call of MPI failed on this grid earlier; it cannot be used any more";
    EXPECT_EQ(mpi_error_of([&] { sums = sum(x, row); }), what.empty() ? "" : again);
  }
}

/// Destroyed by the C++ runtime after main has finalized MPI and Kokkos.
TEST(semantics, static_objects_outlive_mpi_and_kokkos) {
  static cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  static Rows x(g, {8, 8});
  static Square y(g, {8, 8});
  static const Rows wrapped(g, {8, 8},
                            Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space>("mine",
                                                                                              x.view().extent(0),
                                                                                              x.view().extent(1)));
  static cleave::grid part(mesh, MPI_COMM_WORLD, {1, 1}, cleave::on_ranks{support::ranks() - 1, 1});
  static Rows z(part, {8, 8});
  x.fill(1);
  y = 2.0 * x;
  copy(x, z);
  EXPECT_EQ(y.to_global()[0], 2);
}

TEST(semantics, edges_are_ordinary) {
  std::vector<cleave::grid> all = grids();
  all.emplace_back(mesh, MPI_COMM_SELF, std::vector<std::int64_t>{1, 1});
  for (const cleave::grid& g : all) {
    // Nothing, one row, and fewer or other rows than devices.
    for (const std::int64_t n : {0, 1, 2, 3, 7}) {
      Rows x(g, {n, 3});
      Columns y(g, {n, 3});
      f64<mesh(col / data / model)> sums(g, {3});
      f64<mesh(row / data, deep)> product(g, {n, 2});
      f64<mesh(deep, col / model)> weights(g, {2, 3});
      f64<mesh()> total(g, {}), twice(g, {});
      x.fill(1);
      weights.fill(2);
      y = x + 1.0;
      sums = sum(y, row);
      product = dot(x, weights, col);
      total = sum(x);
      twice = 2.0 * total + 1.0;
      x = x + total;
      for (const double v : sums.to_global()) EXPECT_EQ(v, static_cast<double>(2 * n));
      for (const double v : product.to_global()) EXPECT_EQ(v, 6);
      EXPECT_EQ(twice.item(), static_cast<double>(6 * n + 1));
      EXPECT_EQ(x.to_global(), std::vector<double>(static_cast<std::size_t>(3 * n), static_cast<double>(3 * n + 1)));
    }
    // No columns: rows of nothing add up to nothing.
    Rows x(g, {5, 0});
    f64<mesh(row / data)> sums(g, {5});
    f64<mesh(row / data, deep)> product(g, {5, 2});
    f64<mesh(deep, col / model)> weights(g, {2, 0});
    sums.fill(7);
    product.fill(7);
    sums = sum(x, col);
    product = dot(x, weights, col);
    EXPECT_EQ(sums.to_global(), std::vector<double>(5, 0.0));
    EXPECT_EQ(product.to_global(), std::vector<double>(10, 0.0));
  }
}

inline constexpr cleave::dim<"three", 3> three;
TEST(semantics, extents_by_name) {
  for (const cleave::grid& g : grids()) {
    EXPECT_EQ(Rows(g, {col = 4, row = 6}).extents(), (Rows::extents_type{6, 4}));
    using Fixed = f64<mesh(row / data, three)>;
    EXPECT_EQ(Fixed(g, {row = 6}).extents(), (Fixed::extents_type{6, 3}));
    EXPECT_EQ(Fixed(g, {three = 3, row = 6}).extents(), (Fixed::extents_type{6, 3}));
    EXPECT_THROW(Fixed(g, {three = 4, row = 6}), cleave::shape_error);
    EXPECT_THROW(Rows(g, {row = 6}), cleave::shape_error);
    EXPECT_THROW(Rows(g, {row = 6, col = 4, row = 6}), cleave::shape_error);
    EXPECT_THROW(Rows(g, {row = 6, col = 4, deep = 2}), cleave::shape_error);
  }
}

// What a size names is a dim or an axis, not both, and it is there.
inline constexpr cleave::dim<"data"> called_as_the_axis;
constexpr cleave::function everywhere([](auto x) { return reshard(x, mesh(called_as_the_axis, col)); });
TEST(semantics, sizes_of_plans_are_checked) {
  using X = cleave::abstract<double, mesh(called_as_the_axis / data, col)>;
  using Y = cleave::abstract<double, mesh(called_as_the_axis, col)>;
  constexpr auto plan = cleave::plan<Y(X)>(everywhere);
  static_assert(plan.bytes({called_as_the_axis = 60, col = 2, data = 3, model = 1}) == 40 * 2 * 8);
  using F = cleave::abstract<double, mesh(row / data, three)>;
  constexpr auto fixed = cleave::plan<F(F)>(step, cleave::expect<deep, 7>{}, cleave::expect<row, 8>{});
  EXPECT_EQ(fixed.bytes({three = 3, row = 6}), 0);
  EXPECT_THROW(static_cast<void>(fixed.bytes({deep = 2})), cleave::shape_error);
  EXPECT_THROW(static_cast<void>(fixed.bytes({three = 4})), cleave::shape_error);
  EXPECT_THROW(static_cast<void>(fixed.bytes({row = 4, row = 4})), cleave::shape_error);
  EXPECT_THROW(static_cast<void>(fixed.bytes({row = -4})), cleave::shape_error);
  EXPECT_THROW(static_cast<void>(fixed.bytes({data = 0})), cleave::shape_error);
}

// Sizes and extents come by name, or in whatever holds integers.
TEST(semantics, sizes_come_in_any_form) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t n = g.size(data), m = g.size(model);
    const cleave::grid named(mesh, MPI_COMM_WORLD, {model = m, data = n});
    EXPECT_EQ(named.size(data), n);
    EXPECT_EQ(named.size(model), m);
    const std::vector<int> listed{static_cast<int>(n), static_cast<int>(m)};
    EXPECT_EQ(cleave::grid(mesh, MPI_COMM_WORLD, listed).size(data), n);
    EXPECT_EQ(cleave::grid(mesh, MPI_COMM_WORLD, std::array{n, m}).size(model), m);
    EXPECT_THROW(cleave::grid(mesh, MPI_COMM_WORLD, {data = n}), cleave::mesh_error);
    EXPECT_THROW(cleave::grid(mesh, MPI_COMM_WORLD, {data = n, model = m, data = n}), cleave::mesh_error);
    EXPECT_THROW(cleave::grid(mesh, MPI_COMM_WORLD, {data = n, model = m, row = 1}), cleave::mesh_error);
    EXPECT_THROW(cleave::grid(mesh, MPI_Comm{}, {n, m}), cleave::mesh_error);
    const unsigned wide[2] = {6, 4};
    EXPECT_EQ(Rows(g, wide).extents(), (Rows::extents_type{6, 4}));
    EXPECT_EQ(Rows(g, std::vector<int>{6, 4}).extents(), (Rows::extents_type{6, 4}));
    EXPECT_THROW(Rows(g, std::vector<int>{6}), cleave::shape_error);
  }
}

TEST(semantics, what_is_not_there_has_no_size) {
  constexpr cleave::axis<"stage"> stage;
  for (const cleave::grid& g : grids()) {
    EXPECT_EQ(g.size(data) * g.size(model), g.size());
    EXPECT_THROW(static_cast<void>(g.size(stage)), cleave::grid_error);
    const Rows x(g, {6, 4});
    EXPECT_EQ(x.extent(1), 4);
    EXPECT_THROW(static_cast<void>(x.extent(2)), cleave::shape_error);
    EXPECT_THROW(static_cast<void>(x.extent(-1)), cleave::shape_error);
    EXPECT_TRUE(x);
    EXPECT_TRUE(f64<mesh()>(g, {}).has_data());
    EXPECT_FALSE(f64<mesh()>().has_data());
  }
}

constexpr cleave::function middle([](auto x) { return slice(x, row, deep, 2, -3); });
TEST(semantics, slices_begin_and_end_within_their_dim) {
  for (const cleave::grid& g : grids()) {
    for (const std::int64_t n : {3, 4, 9}) {
      Rows x(g, {n, 2});
      x.fill_by(wave<Rows::extents_type>);
      f64<mesh(deep / data, col)> y(g, {std::max<std::int64_t>(n - 5, 0), 2});
      y = middle(x);
      const auto all = x.to_global(), some = y.to_global();
      for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i], all[i + 4]);
    }
    // A dim that is shorter has no such elements.
    for (const std::int64_t n : {0, 2}) {
      Rows x(g, {n, 2});
      f64<mesh(deep / data, col)> y(g, {0, 2});
      EXPECT_THROW(y = middle(x), cleave::shape_error);
    }
  }
}

// What takes a number of elements of a dim needs a dim that has them.
inline constexpr cleave::dim<"three", 3> of_three;
constexpr cleave::function three_from([](auto x, auto at) { return cleave::dynamic_slice(x, row, of_three, at); });
constexpr cleave::function three_written([](auto x, auto at) {
  return cleave::dynamic_update(x, row, 9.0, of_three, at);
});
constexpr cleave::function some_written([](auto x, auto y, auto at) {
  return cleave::dynamic_update(x, row, y, deep, at);
});
constexpr cleave::function largest([](auto x) { return cleave::top_k(x, row, of_three); });
constexpr cleave::function apart([](auto x) { return pad(x, row, deep, 2, 2, 1, 7); });
TEST(semantics, dims_are_as_long_as_what_is_taken_of_them) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(of_three, col)> three(g, {3, 2});
    cleave::tensor<std::int32_t, mesh(of_three, col)> which(g, {3, 2});
    cleave::tensor<std::uint32_t, mesh()> at(g, {});
    at.fill(1);
    for (const std::int64_t n : {0, 2, 3, 5}) {
      Rows x(g, {n, 2}), z(g, {n, 2});
      f64<mesh(deep, col)> some(g, {3, 2});
      x.fill_by(wave<Rows::extents_type>);
      const auto call = [&] {
        three = three_from(x, at);
        z = three_written(x, at);
        z = some_written(x, some, at);
        largest(x).into(three, which);
      };
      if (n >= 3) call();
      else {
        EXPECT_THROW(three = three_from(x, at), cleave::shape_error);
        EXPECT_THROW(z = three_written(x, at), cleave::shape_error);
        EXPECT_THROW(z = some_written(x, some, at), cleave::shape_error);
        EXPECT_THROW(largest(x).into(three, which), cleave::shape_error);
      }
      f64<mesh(deep / data, col)> wide(g, {2 * n + 3, 2});
      if (n > 0) wide = apart(x);
      else {
        EXPECT_THROW(wide = apart(x), cleave::shape_error);
      }
    }
  }
}

} // namespace CLEAVE_SOURCE
