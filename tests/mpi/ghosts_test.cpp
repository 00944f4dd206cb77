// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>

// Views with ghosts: halos are written to the ghosts and read there. The values are those of contiguous tensors, bit
// for bit.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using field = cleave::tensor<double, mesh(row / data, col / model)>;
using slab = cleave::tensor<double, mesh(row, col / model / data)>;

constexpr double untouched = -77;
using memory_2d = Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space>;

double wave(std::int64_t i, std::int64_t j) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.9 * static_cast<double>(j));
}

/// A tensor in a View with ghosts.
template <class Tensor>
struct ghosted {
  std::array<std::int64_t, 2> widths, global, extent;
  memory_2d all;
  Tensor shard{};

  ghosted(const cleave::grid& g, std::array<std::int64_t, 2> extents, std::array<std::int64_t, 2> ghosts)
      : widths(ghosts), global(extents), extent(Tensor(g, extents).local_extents()) {
    all = memory_2d("with ghosts", static_cast<std::size_t>(extent[0] + 2 * widths[0]),
                    static_cast<std::size_t>(extent[1] + 2 * widths[1]));
    Kokkos::deep_copy(all, untouched);
    shard = Tensor(g, extents, cleave::with_ghosts(all, widths));
  }
  /// Element (i, j) of the shard in a copy of all; others are ghosts.
  template <class View>
  double& at(const View& copy, std::int64_t i, std::int64_t j) const {
    return copy(static_cast<std::size_t>(i + widths[0]), static_cast<std::size_t>(j + widths[1]));
  }
  double* first() const { return all.data() + widths[0] * (extent[1] + 2 * widths[1]) + widths[1]; }
  /// Calls f(i, j) for all ghosts.
  template <class F>
  void for_each_ghost(const F& f) const {
    for (std::int64_t i = -widths[0]; i < extent[0] + widths[0]; ++i)
      for (std::int64_t j = -widths[1]; j < extent[1] + widths[1]; ++j)
        if (i < 0 || i >= extent[0] || j < 0 || j >= extent[1]) f(i, j);
  }
  int ghosts_written() const {
    int written = 0;
    const auto copy = support::read(all);
    for_each_ghost([&](std::int64_t i, std::int64_t j) { written += at(copy, i, j) != untouched ? 1 : 0; });
    return written;
  }
  bool in_place() const { return !shard.state().contiguous; }
};
template <class A, class B>
bool same_bits(const A& a, const B& b) {
  const auto x = a.to_global(), y = b.to_global();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
}

template <cleave::border Border>
constexpr cleave::function star([](auto u) {
  return 0.5 * u + 0.125 * (shift(u, row, 1, Border) + shift(u, row, -1, Border) + shift(u, col, 2, Border) -
                            shift(u, col, -1, Border));
});
template <cleave::border Border>
constexpr cleave::function box([](auto u) {
  return 0.5 * shift(shift(u, row, 1, Border), col, 1, Border) + 0.25 * shift(u, row, -1, Border) +
         0.125 * (shift(u, col, -1, Border) - shift(u, col, 1, Border));
});

/// Some steps to and fro.
template <class Tensor, class F>
void expect_same(const cleave::grid& g, std::array<std::int64_t, 2> extents, std::array<std::int64_t, 2> widths,
                 const F& f) {
  const ghosted<Tensor> u(g, extents, widths), v(g, extents, widths);
  EXPECT_TRUE(u.extent[0] * u.extent[1] == 0 || u.shard.data() == u.first()) << "no copy";
  Tensor a(g, extents), b(g, extents);
  a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
  const auto copy = support::read(u.all), plain = support::read(a.view());
  for (std::int64_t i = 0; i < u.extent[0]; ++i)
    for (std::int64_t j = 0; j < u.extent[1]; ++j)
      u.at(copy, i, j) = plain(static_cast<std::size_t>(i), static_cast<std::size_t>(j));
  support::write(u.all, copy);
  for (int step = 0; step < 2; ++step) {
    f(u.shard).into(v.shard);
    f(v.shard).into(u.shard);
    b = f(a);
    a = f(b);
  }
  EXPECT_TRUE(u.in_place() && v.in_place()) << "no contiguous copy is made";
  EXPECT_TRUE(same_bits(u.shard, a) && same_bits(v.shard, b));
  // In place, which is computed beside it first.
  u.shard.alias() = f(u.shard);
  b = f(a);
  EXPECT_TRUE(same_bits(u.shard, b));
}
TEST(ghosts, values_are_those_of_contiguous_tensors) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const std::array<std::int64_t, 4> c :
         {std::array<std::int64_t, 4>{16, 24, 1, 2}, {19, 17, 2, 3}, {9, 3, 1, 2}, {19, 17, 1, 1}}) {
      const std::array extents{c[0], c[1]}, widths{c[2], c[3]};
      expect_same<field>(g, extents, widths, star<cleave::border::periodic>);
      expect_same<field>(g, extents, widths, star<cleave::border::zero>);
      expect_same<field>(g, extents, widths, box<cleave::border::periodic>);
      expect_same<field>(g, extents, widths, box<cleave::border::reflect>);
      expect_same<slab>(g, extents, {0, 2}, star<cleave::border::periodic>);
    }
}

/// A ghost that the step reads has the element of the neighbour, others are left alone.
TEST(ghosts, hold_the_halo_and_nothing_else_is_written) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {16, 24}, {2, 3}), v(g, {16, 24}, {2, 3});
    u.shard.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    EXPECT_EQ(u.ghosts_written(), 0);
    star<cleave::border::periodic>(u.shard).into(v.shard);
    EXPECT_EQ(v.ghosts_written(), 0);
    const auto offset = u.shard.offset();
    const auto copy = support::read(u.all);
    u.for_each_ghost([&](std::int64_t i, std::int64_t j) {
      const bool above = i >= -1 && i <= u.extent[0] && j >= 0 && j < u.extent[1];
      const bool beside = j >= -2 && j <= u.extent[1] && i >= 0 && i < u.extent[0];
      const std::int64_t y = (offset[0] + i + 16) % 16, x = (offset[1] + j + 24) % 24;
      EXPECT_EQ(u.at(copy, i, j), above || beside ? wave(y, x) : untouched) << i << ", " << j;
    });
  }
}

/// The workspace of a call from one tensor to another.
template <class F, class From, class To>
std::int64_t workspace(const F& f, const From& from, const To& to) {
  return [&]<class Plan, class Verdict>(const cleave::planned<Plan, Verdict>&) {
    const cleave::detail::call_operand operands[] = {{&from.state(), from.data()}, {&to.state(), to.data()}};
    const cleave::runnable& code = cleave::runnable_of<Plan>;
    const cleave::detail::call_site site(code.program, operands, std::size(operands));
    return cleave::detail::strided_executor_for(code, site, operands).code->workspace_bytes();
  }(cleave::plan<field(field)>(f));
}
TEST(ghosts, take_the_place_of_workspace) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const auto& f = star<cleave::border::zero>;
    const ghosted<field> wide(g, {48, 48}, {1, 2}), narrow(g, {48, 48}, {1, 1}), to(g, {48, 48}, {1, 2});
    const std::int64_t halo = 8 * (2 * wide.extent[1] + 3 * wide.extent[0]);
    EXPECT_EQ(workspace(f, narrow.shard, to.shard) - workspace(f, wide.shard, to.shard), cleave::comm::aligned(halo));
    // Too few ghosts are left alone.
    f(narrow.shard).into(to.shard);
    EXPECT_EQ(narrow.ghosts_written(), 0);
  }
}

// One tensor as two arguments, and two halos of one argument: ghosts have room for one.
constexpr cleave::function difference([](auto u, auto v) {
  return shift(u, row, 1, cleave::border::edge) - shift(v, row, -1, cleave::border::periodic);
});
constexpr cleave::function two_borders([](auto u) {
  return shift(u, row, 1, cleave::border::edge) - shift(u, row, -1, cleave::border::periodic);
});
TEST(ghosts, have_room_for_one_halo) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {20, 6}, {1, 1}), v(g, {20, 6}, {1, 1});
    field a(g, {20, 6}), b(g, {20, 6}), c(g, {20, 6});
    u.shard.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    b = difference(a, a);
    difference(u.shard, u.shard).into(v.shard);
    EXPECT_TRUE(same_bits(v.shard, b));
    two_borders(u.shard).into(v.shard);
    EXPECT_TRUE(same_bits(v.shard, b));
    // Two tensors with ghosts.
    difference(u.shard, v.shard).into(c);
    b = difference(a, b);
    EXPECT_TRUE(same_bits(c, b));
  }
}

// Loops and other steps work as with any View.
constexpr cleave::function relaxed([](auto u) {
  return repeat_times(3, u, [](auto v) { return star<cleave::border::edge>(v); });
});
TEST(ghosts, loops) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {12, 10}, {1, 2}), v(g, {12, 10}, {1, 2});
    field a(g, {12, 10}), b(g, {12, 10});
    u.shard.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    relaxed(u.shard).into(v.shard);
    b = relaxed(a);
    EXPECT_TRUE(same_bits(v.shard, b));
    v.shard.alias() = 2.0 * u.shard;
    b = 2.0 * a;
    EXPECT_TRUE(same_bits(v.shard, b));
  }
}

// The View of any rank that does not have the extents of its shard and the ghosts is an error of all.
TEST(ghosts, that_do_not_fit) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  const bool last = support::rank() == support::ranks() - 1;
  const memory_2d all("all", 6, last ? 7 : 8);
  EXPECT_THROW(field(g, {4 * support::ranks(), 6}, cleave::with_ghosts(all, {1, 1})), cleave::view_error);
  const memory_2d fits("fits", 6, 8);
  for (const std::array<std::int64_t, 2>& widths : {std::array<std::int64_t, 2>{-1, 0}, {-1, -1}, {1, -1}}) {
    try {
      field(g, {4 * support::ranks(), 6}, cleave::with_ghosts(fits, widths));
      ADD_FAILURE() << "widths below 0";
    } catch (const cleave::view_error& e) {
      EXPECT_NE(std::string(e.what()).find("-1 ghosts"), std::string::npos) << e.what();
    }
  }
}
// A rank without elements gives an empty View, or one with ghosts alone.
TEST(ghosts, of_ranks_without_elements) {
  const std::int64_t some = std::max(support::ranks() - 1, 1);
  const cleave::grid g(mesh, MPI_COMM_WORLD, {some, 1}, cleave::on_ranks{});
  const memory_2d all("all", g.active() ? 6 : 0, g.active() ? 8 : 0);
  const field u(g, {4 * some, 6}, cleave::with_ghosts(all, {1, 1}));
  if (g.active()) {
    EXPECT_EQ(u.strided_view().data(), all.data() + 9);
  }
}

// Tensors that keep their halos. Grids communicate by MPI alone, whose messages are counted.

/// Messages that all devices send in a call, and the bytes that arrive at the busiest one.
struct traffic {
  std::int64_t messages, bytes;
  friend bool operator==(const traffic&, const traffic&) = default;
};
template <class F>
traffic traffic_of(const F& call) {
  support::reset_charges();
  call();
  const std::int64_t messages = support::sent_messages(), bytes = support::charged_bytes();
  std::int64_t all = 0;
  MPI_Allreduce(&messages, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return {all, support::over_ranks(bytes)};
}
constexpr traffic nothing{0, 0};

constexpr cleave::function mean([](auto u) {
  return 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
});
constexpr cleave::function difference_of_rows([](auto u) { return shift(u, row, 1) - u; });
constexpr cleave::function corners([](auto u) { return shift(shift(u, row, 1), col, 1) - u; });
constexpr cleave::function mean_mirrored([](auto u) {
  using enum cleave::border;
  return 0.5 * (shift(u, row, 1, reflect) + shift(u, row, -1, reflect));
});
constexpr cleave::function wide([](auto u) { return shift(u, row, 2) - shift(u, col, -2); });
/// Reads the halos of both.
constexpr cleave::function product([](auto u, auto v) {
  return shift(u, row, 1) * shift(v, row, 1) + shift(u, col, -1) * shift(v, col, -1);
});

struct kept {
  std::array<std::int64_t, 2> extents;
  field u, a, b, c, other;

  explicit kept(const cleave::grid& on, std::array<std::int64_t, 2> all = {22, 18})
      : extents(all), u(on, all, cleave::kept_halo{1, 1}), a(on, all), b(on, all), c(on, all),
        other(on, all, cleave::kept_halo{1, 1}) {
    write();
  }
  void write() {
    u.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
  }
  /// The traffic of a call on the tensor that keeps its halo, whose values and elements are those of a tensor without.
  template <class F>
  traffic of(const F& f) {
    bind(f);
    b = f(a);
    const traffic t = traffic_of([&] { c = f(u); });
    EXPECT_TRUE(same_bits(b, c) && same_bits(u, a));
    return t;
  }
  /// Devices agree on the memory of a plan when they bind it.
  template <class F>
  void bind(const F& f) {
    c = f(other);
    other.release_halo();
    c = f(other);
    other.keep_halo();
  }
  template <class F>
  traffic without(const F& f) {
    b = f(a);
    return traffic_of([&] { b = f(a); });
  }
};

TEST(kept_halos, are_exchanged_once) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh))
    for (const std::array<std::int64_t, 2> extents : {std::array<std::int64_t, 2>{22, 18}, {3, 17}}) {
      kept k(g, extents);
      const traffic all = k.without(mean);
      EXPECT_EQ(k.of(mean), all);
      EXPECT_EQ(k.of(mean), nothing);
      EXPECT_FALSE(k.u.was_copied());
      // Less of it is there too; corners are not, nor other elements beyond the border.
      EXPECT_EQ(k.of(difference_of_rows), nothing);
      EXPECT_EQ(k.of(corners), k.without(corners));
      EXPECT_EQ(k.of(corners), nothing);
      EXPECT_EQ(k.of(mean), all);
      EXPECT_EQ(k.of(mean_mirrored), k.without(mean_mirrored));
      EXPECT_EQ(k.of(mean_mirrored), nothing);
      EXPECT_EQ(k.of(mean), all);
      // A halo without room in the ghosts leaves them as they are.
      EXPECT_EQ(k.of(wide), k.without(wide));
      EXPECT_EQ(k.of(wide), k.without(wide));
      EXPECT_EQ(k.of(mean), nothing);
    }
}

TEST(kept_halos, are_stale_after_each_kind_of_write) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    kept k(g);
    const traffic all = k.without(mean);
    const auto expect_stale = [&](const char* how, const auto& write) {
      EXPECT_EQ(k.of(mean), nothing) << how;
      write(k.u), write(k.a);
      EXPECT_EQ(k.of(mean), all) << how;
    };
    EXPECT_EQ(k.of(mean), all);
    expect_stale("a result", [&](field& x) { x = 2.0 * x; });
    expect_stale("a result that is the argument", [&](field& x) { x = mean(x); });
    expect_stale("into", [&](field& x) { mean(k.b).into(x); });
    expect_stale("fill", [&](field& x) { x.fill(3); });
    expect_stale("fill_by", [&](field& x) { x.fill_by([](const auto& at) { return wave(at[1], at[0]); }); });
    expect_stale("a copy", [&](field& x) { x = k.b; });
    expect_stale("a number", [&](field& x) { x = 1.5; });
    expect_stale("an alias", [&](field& x) { x.alias() = 0.5 * x; });
    expect_stale("another layout", [&](field& x) { x = slab(2.0 * k.b); });
    expect_stale("a View", [&](field& x) {
      x.release_halo();
      Kokkos::deep_copy(x.strided_view(), 4.5);
      if (&x == &k.u) x.keep_halo();
    });
    // Reading changes nothing.
    EXPECT_EQ(k.of(mean), nothing);
    const auto global = k.u.to_global();
    field copy(k.u);
    EXPECT_EQ(k.of(mean), nothing);
    // A released tensor exchanges in each call.
    k.u.release_halo();
    EXPECT_EQ(k.of(mean), all);
    EXPECT_EQ(k.of(mean), all);
  }
}

TEST(kept_halos, move_with_the_elements) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    kept k(g);
    field other(g, k.extents, cleave::kept_halo{1, 1});
    k.of(mean);
    std::swap(k.u, other);
    EXPECT_EQ(traffic_of([&] { k.c = mean(other); }), nothing);
    std::swap(k.u, other);
    EXPECT_EQ(k.of(mean), nothing);
    const field alias = k.u.alias();
    EXPECT_EQ(traffic_of([&] { k.c = mean(alias); }), nothing);
  }
}

// Of exchanges that share messages those are left out whose elements are there.
TEST(kept_halos, leave_the_messages_to_others) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    kept k(g), other(g);
    const auto expect = [&](const traffic& t, bool u, bool v) {
      k.c = product(k.a, other.a);
      const traffic found = traffic_of([&] { k.b = product(k.u, other.u); });
      EXPECT_EQ(found.messages, t.messages) << u << v;
      EXPECT_EQ(found.bytes, u && v ? t.bytes : (u ? t.bytes / 2 : 0) + (v ? t.bytes / 2 : 0)) << u << v;
      EXPECT_TRUE(same_bits(k.b, k.c));
    };
    k.b = product(k.other, other.other);
    k.b = product(k.a, other.a);
    const traffic all = traffic_of([&] { k.b = product(k.a, other.a); });
    expect(all, true, true);
    expect(nothing, false, false);
    for (int times = 0; times < 2; ++times) {
      k.u.fill(times), k.a.fill(times);
      expect(all, true, false);
      other.u.fill(times), other.a.fill(times);
      expect(all, false, true);
      expect(nothing, false, false);
    }
  }
}

TEST(kept_halos, of_views) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {16, 24}, {1, 2});
    field a(g, {16, 24}), b(g, {16, 24});
    const auto& f = star<cleave::border::edge>;
    const auto call = [&] { b = f(u.shard); };
    u.shard.fill(2);
    call();
    const traffic all = traffic_of(call);
    EXPECT_EQ(traffic_of(call), all) << "the View may have been written";
    u.shard.keep_halo();
    call();
    u.shard.fill(3);
    EXPECT_EQ(traffic_of(call), all);
    EXPECT_EQ(traffic_of(call), nothing);
    EXPECT_THROW(a.keep_halo(), cleave::view_error);
  }
}

TEST(kept_halos, refuse_views_and_wrong_widths) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  field u(g, {20, 6}, cleave::kept_halo{1, 1});
  EXPECT_THROW((void)u.data(), cleave::view_error);
  EXPECT_THROW((void)u.strided_view(), cleave::view_error);
  u.release_halo();
  EXPECT_NE(u.data(), nullptr);
  try {
    field(g, {20, 6}, cleave::kept_halo{1, -2});
    ADD_FAILURE() << "widths below 0";
  } catch (const cleave::view_error& e) {
    EXPECT_NE(std::string(e.what()).find("-2 ghosts"), std::string::npos) << e.what();
  }
  const field none(g, {20, 6}, cleave::kept_halo{0, 0});
  EXPECT_EQ(static_cast<std::int64_t>(none.view().size()), none.local_size());
}

// Gradients read the halos of cotangents, and the primal's own.
constexpr cleave::function loss([](auto u) { return sum(mean(u) * mean(u)); });
TEST(kept_halos, gradients) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    kept k(g);
    k.of(mean);
    k.b = cleave::grad(loss)(k.a);
    k.c = cleave::grad(loss)(k.u);
    EXPECT_TRUE(same_bits(k.b, k.c));
    EXPECT_EQ(k.of(mean), nothing);
  }
}

// In checked mode a write by some devices is an error; other calls are right.
TEST(kept_halos, checked_mode) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    g.check({.calls = true});
    kept k(g);
    k.of(mean);
    k.of(mean);
    const auto write_on_some = [&] {
      if (support::rank() == 0) k.u.fill(1);
      k.b = mean(k.u);
    };
    if (support::ranks() > 1) {
      EXPECT_THROW(write_on_some(), cleave::agreement_error);
    }
    k.write();
    k.of(mean);
    g.check({});
    EXPECT_EQ(k.of(mean), k.without(mean));
    EXPECT_EQ(k.of(mean), nothing);
  }
}

} // namespace CLEAVE_SOURCE
