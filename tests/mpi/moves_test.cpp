// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cost/reshard.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Every kind of move, between all pairs of layouts between which it may be planned, on all meshes of this many ranks,
// against the ownership of every element enumerated from the definition of blocks.

namespace CLEAVE_SOURCE {

using namespace cleave;

/// Value of an element on a device: whole values know their place, partial ones their device too.
template <class T>
T value_of(std::int64_t flat, axis_set partial, reduction how, const coordinates& at, const axis_sizes& sizes) {
  std::int64_t part = 0;
  for (int a = 0; a < max_axes; ++a)
    if ((partial >> a & 1) != 0) part = part * sizes[a] + at[static_cast<std::size_t>(a)];
  const std::int64_t v = flat + 1;
  switch (how) {
    case reduction::sum: return static_cast<T>(v * (part + 1));
    case reduction::prod: return static_cast<T>(part == 0 ? v : 1);
    case reduction::max: return static_cast<T>(v + part);
    case reduction::min: return static_cast<T>(v - part);
    case reduction::logsumexp: break; // not moved here: its values are not exact
  }
  return T{};
}

template <class T>
T with_identity(reduction how) {
  switch (how) {
    case reduction::sum: return identity_of<reduction::sum, T>;
    case reduction::prod: return identity_of<reduction::prod, T>;
    case reduction::max: return identity_of<reduction::max, T>;
    case reduction::min: return identity_of<reduction::min, T>;
    case reduction::logsumexp: break;
  }
  return T{};
}

/// All partial values over `gone` combined, on a device with the given coordinates on the axes that stay partial.
template <class T>
T combined_value(std::int64_t flat, axis_set before, axis_set gone, reduction how, coordinates at,
                 const axis_sizes& sizes) {
  T total = with_identity<T>(how);
  const std::int64_t n = sizes.product(gone);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t rest = i;
    for (int a = 0; a < max_axes; ++a)
      if ((gone >> a & 1) != 0) {
        at[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(rest % sizes[a]);
        rest /= sizes[a];
      }
    const T v = value_of<T>(flat, before, how, at, sizes);
    switch (how) {
      case reduction::sum: total = static_cast<T>(total + v); break;
      case reduction::prod: total = static_cast<T>(total * v); break;
      case reduction::max: total = v > total ? v : total; break;
      case reduction::min: total = v < total ? v : total; break;
      case reduction::logsumexp: break;
    }
  }
  return total;
}

struct tally {
  std::int64_t moves = 0, wrong = 0, dearer = 0, cheaper = 0, bytes = 0;
};

std::string print(const layout& l, int rank) {
  std::string s = "[";
  for (int i = 0; i < rank; ++i) {
    s += i == 0 ? "" : ", ";
    s += std::to_string(i);
    for (int j = 0; j < l[i].size(); ++j) s += "/" + std::string(support::axis_names[l[i][j]]);
  }
  return s + "] partial " + std::to_string(l.unreduced());
}

template <class T>
void check_move(grid_state& grid, kind move, const comm::transfer& t, tally& total) {
  const axis_sizes& sizes = grid.sizes();
  std::vector<T> in, want;
  support::for_owned(t.global, t.from, grid.here(), sizes, [&](std::int64_t flat) {
    in.push_back(value_of<T>(flat, t.from.unreduced(), t.combine, grid.here(), sizes));
  });
  const axis_set gone = static_cast<axis_set>(t.from.unreduced() & ~t.to.unreduced());
  const axis_set fresh = static_cast<axis_set>(t.to.unreduced() & ~t.from.unreduced());
  bool keeps = true;
  for (int a = 0; a < max_axes; ++a)
    keeps = keeps && ((fresh >> a & 1) == 0 || grid.here()[static_cast<std::size_t>(a)] == 0);
  support::for_owned(t.global, t.to, grid.here(), sizes, [&](std::int64_t flat) {
    want.push_back(keeps ? combined_value<T>(flat, t.from.unreduced(), gone, t.combine, grid.here(), sizes)
                         : with_identity<T>(t.combine));
  });
  const T untouched = static_cast<T>(77);
  std::vector<T> out(want.size() + 1, untouched);
  support::reset_charges();
  support::run_move(grid, move, t, in, out);
  const std::int64_t charged = support::over_ranks(support::charged_bytes());
  const std::int64_t price = price_of({move, t.axes, t.to}, t.from, t.global, size_of(t.element), sizes).bytes;
  bool right = out.back() == untouched;
  for (std::size_t i = 0; i < want.size(); ++i) right = right && out[i] == want[i];
  ++total.moves;
  total.bytes += charged;
  total.wrong += right ? 0 : 1;
  total.dearer += charged > price ? 1 : 0;
  total.cheaper += charged < price ? 1 : 0;
  const auto where = [&] {
    std::string s = std::string(name_of(move)) + " " + print(t.from, t.global.rank) + " -> " +
                    print(t.to, t.global.rank) + " of";
    for (int i = 0; i < t.global.rank; ++i) s += " " + std::to_string(t.global[i]);
    s += " on";
    for (int a = 0; a < grid.mesh().size(); ++a) s += " " + std::to_string(sizes[a]);
    return s;
  };
  // The first few by name; the rest are counted.
  if (total.wrong + total.dearer + total.cheaper <= 5) {
    EXPECT_TRUE(right) << where();
    EXPECT_EQ(charged, price) << where();
  }
}

/// Whether `longer` continues `shorter` on every dim; the axes added.
bool continues(const layout& shorter, const layout& longer, int rank, axis_set& added) {
  added = static_cast<axis_set>(longer.sharded() & ~shorter.sharded());
  for (int i = 0; i < rank; ++i)
    if (!longer[i].starts_with(shorter[i])) return false;
  return true;
}
/// Whether axes only move from the ends of dims to the ends of others; those axes.
bool turns(const layout& from, const layout& to, int rank, axis_set& moving) {
  if (from.sharded() != to.sharded()) return false;
  moving = 0;
  for (int i = 0; i < rank; ++i) {
    const int common = from[i].common_prefix(to[i]);
    if (from[i].size() > common && to[i].size() > common) return false;
    for (int j = common; j < from[i].size(); ++j) moving = static_cast<axis_set>(moving | axis_bit(from[i][j]));
  }
  return moving != 0;
}

/// All moves between two layouts of a shape; `partial` axes are free in both.
template <class T>
void check_pair(grid_state& grid, const shape& global, layout from, layout to, reduction how, bool partial_too,
                tally& total) {
  const element e = element_of<T>;
  axis_set axes = 0;
  const axis_set used = static_cast<axis_set>(from.sharded() | to.sharded());
  if (!(from == to)) check_move<T>(grid, kind::collective_permute, {e, global, from, to, used, how}, total);
  if (continues(from, to, global.rank, axes) && axes != 0) {
    check_move<T>(grid, kind::slice, {e, global, from, to, axes, how}, total);
    check_move<T>(grid, kind::all_gather, {e, global, to, from, axes, how}, total);
    layout partial = from;
    partial.set_partial(axes, how);
    check_move<T>(grid, kind::reduce_scatter, {e, global, partial, to, axes, how}, total);
  }
  if (turns(from, to, global.rank, axes))
    check_move<T>(grid, kind::all_to_all, {e, global, from, to, axes, how}, total);
  if (!partial_too) return;
  // Partial values over the axes that neither side uses.
  const axis_set rest = static_cast<axis_set>(grid.mesh().all() & ~used);
  if (rest == 0) return;
  layout partial = from;
  partial.set_partial(rest, how);
  if (from == to) {
    check_move<T>(grid, kind::all_reduce, {e, global, partial, from, rest, how}, total);
    check_move<T>(grid, kind::mask, {e, global, from, partial, rest, how}, total);
  } else {
    layout moved = to;
    moved.set_partial(rest, how);
    check_move<T>(grid, kind::collective_permute, {e, global, partial, moved, used, how}, total);
    axis_set over = 0;
    if (continues(from, to, global.rank, over)) {
      // Some axes scattered, the others stay partial.
      layout both = partial;
      both.set_partial(static_cast<axis_set>(rest | over), how);
      check_move<T>(grid, kind::reduce_scatter, {e, global, both, moved, over, how}, total);
    }
  }
}

shape shape_with(std::initializer_list<std::int64_t> extents) {
  shape s;
  for (std::int64_t e : extents) s[s.rank++] = e;
  return s;
}

template <class T>
void check_all(std::size_t axes, const std::vector<shape>& shapes, reduction how, std::size_t stride) {
  tally total;
  for (const auto& sizes : support::factorings(support::ranks(), axes)) {
    const grid g(support::mesh_of(axes), MPI_COMM_WORLD, sizes);
    for (const shape& global : shapes) {
      const auto all = support::layouts(global.rank, static_cast<int>(axes));
      std::size_t pair = 0;
      for (const layout& from : all)
        for (const layout& to : all)
          if (pair++ % stride == 0) check_pair<T>(g.state(), global, from, to, how, true, total);
    }
  }
  EXPECT_EQ(total.wrong, 0);
  EXPECT_EQ(total.dearer, 0);
  EXPECT_EQ(total.cheaper, 0);
  EXPECT_GT(total.moves, 0);
  EXPECT_TRUE(support::ranks() == 1 || total.bytes > 0);
}

TEST(moves, one_axis) {
  check_all<float>(1, {shape_with({8}), shape_with({7}), shape_with({1}), shape_with({0})}, reduction::sum, 1);
  check_all<double>(1, {shape_with({8, 16}), shape_with({5, 3}), shape_with({0, 4}), shape_with({1, 9})},
                    reduction::max, 1);
  check_all<std::int32_t>(1, {shape_with({2, 3, 8}), shape_with({8, 1, 5})}, reduction::min, 1);
}
TEST(moves, two_axes) {
  check_all<float>(2, {shape_with({16}), shape_with({11}), shape_with({3})}, reduction::sum, 1);
  check_all<std::int64_t>(2, {shape_with({8, 8}), shape_with({9, 5}), shape_with({2, 0})}, reduction::prod, 1);
  check_all<double>(2, {shape_with({4, 3, 8})}, reduction::sum, 2);
}
TEST(moves, three_axes) {
  check_all<std::int32_t>(3, {shape_with({16}), shape_with({13})}, reduction::sum, 3);
  check_all<float>(3, {shape_with({8, 16}), shape_with({7, 6})}, reduction::max, 13);
}

/// Blocks that do not nest: 10 over 2 devices are blocks of 5, over 4 devices blocks of 3.
TEST(moves, blocks_that_do_not_nest) {
  check_all<double>(2, {shape_with({10}), shape_with({9, 10}), shape_with({5, 6})}, reduction::sum, 1);
}

/// Blocks of given sizes, some of them empty, for as many devices as there are, for fewer and for more.
TEST(moves, given_blocks) {
  const block_table two{{0, 9, 11}}, four{{0, 0, 7, 7, 11}}, three{{0, 1, 1, 6}};
  const auto with = [](shape s, std::initializer_list<const block_table*> given) {
    std::copy(given.begin(), given.end(), s.given);
    return s;
  };
  check_all<double>(1, {with(shape_with({11}), {&four}), with(shape_with({11, 6}), {&two, &three})}, reduction::sum, 1);
  check_all<float>(2, {with(shape_with({11}), {&four}), with(shape_with({11}), {&two})}, reduction::max, 1);
  check_all<std::int32_t>(2, {with(shape_with({11, 8}), {&four, nullptr}), with(shape_with({6, 11}), {&three, &four})},
                          reduction::sum, 1);
  check_all<double>(3, {with(shape_with({11, 11}), {&two, &four})}, reduction::sum, 13);
}

TEST(moves, all_element_types) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  tally total;
  const shape global = shape_with({3, 5});
  for (const layout& from : support::layouts(2, 1))
    for (const layout& to : support::layouts(2, 1)) {
      check_pair<std::int8_t>(g.state(), global, from, to, reduction::max, true, total);
      check_pair<std::uint8_t>(g.state(), global, from, to, reduction::max, true, total);
      check_pair<std::uint32_t>(g.state(), global, from, to, reduction::sum, true, total);
      check_pair<std::uint64_t>(g.state(), global, from, to, reduction::sum, true, total);
      check_pair<std::int32_t>(g.state(), global, from, to, reduction::sum, true, total);
    }
  EXPECT_EQ(total.wrong, 0);
}

/// The same moves when a call of MPI takes 3 elements at most.
TEST(moves, counts_beyond_the_limit) {
  const std::int64_t before = comm::count_limit();
  comm::count_limit() = 3;
  check_all<float>(1, {shape_with({8, 16}), shape_with({5, 3})}, reduction::sum, 1);
  check_all<double>(2, {shape_with({8, 4}), shape_with({9, 5})}, reduction::sum, 3);
  comm::count_limit() = before;
}

/// The same moves with every message staged through host memory.
TEST(moves, staged) {
  const support::setting all(comm::gpu_aware_mode(), comm::gpu_aware::never);
  check_all<float>(1, {shape_with({8, 16}), shape_with({5, 3})}, reduction::sum, 1);
  check_all<double>(2, {shape_with({8, 4}), shape_with({9, 5})}, reduction::sum, 3);
  comm::count_limit() = 3;
  check_all<double>(2, {shape_with({9, 5})}, reduction::sum, 5);
  comm::count_limit() = std::numeric_limits<int>::max();
}

/// Axes of size 1 and moves within a device call nothing.
TEST(moves, nothing_is_called_for_one_device) {
  const grid g(support::mesh_of(2), MPI_COMM_WORLD, {support::ranks(), 1});
  const shape global = shape_with({4, 6});
  layout partial, sharded;
  partial.set_partial(2);
  sharded.set(0, axis_list(1));
  std::vector<float> in(24, 1), out(24, 0);
  support::reset_charges();
  support::run_move(g.state(), kind::all_reduce, {element::f32, global, partial, {}, 2, reduction::sum}, in, out);
  support::run_move(g.state(), kind::reduce_scatter, {element::f32, global, partial, sharded, 2, reduction::sum}, in,
                    out);
  support::run_move(g.state(), kind::all_gather, {element::f32, global, sharded, {}, 2, reduction::sum}, in, out);
  support::run_move(g.state(), kind::collective_permute, {element::f32, global, sharded, {}, 2, reduction::sum}, in,
                    out);
  EXPECT_EQ(support::charged_calls(), 0);
  EXPECT_EQ(out, in);
}

/// An all-reduce may work in place.
TEST(moves, in_place_all_reduce) {
  const grid g(support::mesh_of(1), MPI_COMM_WORLD, {support::ranks()});
  layout partial;
  partial.set_partial(1);
  const support::on_device<double> data(std::vector<double>(5, g.rank() + 1));
  support::run_move(g.state(), kind::all_reduce, {element::f64, shape_with({5}), partial, {}, 1, reduction::sum},
                    data.data(), data.data());
  const double n = support::ranks();
  EXPECT_EQ(data.read(), std::vector<double>(5, n * (n + 1) / 2));
}

// What a plan predicts of the memory of its moves is what their collectives ask for, where all goes through MPI;
// nothing more through shared memory. Messages of a device that go through the host need memory whatever their form.
TEST(moves, scratch_memory_is_predicted) {
  constexpr kind moves[] = {kind::slice,      kind::mask,       kind::all_reduce,        kind::reduce_scatter,
                            kind::all_gather, kind::all_to_all, kind::collective_permute};
  const std::vector<layout> all = support::layouts(2, 2);
  std::int64_t packing = 0, wrong = 0, above = 0;
  for (const auto& axes : support::factorings(support::ranks(), 2)) {
    const auto shared = std::make_shared<grid_state>(support::mesh_of(2), MPI_COMM_WORLD, axes);
    const support::only_mpi here;
    const auto apart = std::make_shared<grid_state>(support::mesh_of(2), MPI_COMM_WORLD, axes);
    for (const shape& global : {shape_with({8, 8}), shape_with({8, 3}), shape_with({1, 9}), shape_with({5, 6})})
      for (layout from : all)
        for (const layout& to : all)
          for (const kind move : moves) {
            const axis_set changed{(from.used() | to.used()) & ~(from.used() & to.used())};
            layout before = from;
            if (move == kind::all_reduce || move == kind::reduce_scatter) {
              if ((from.used() & ~to.used()) != 0 || changed == 0) continue;
              before.set_partial(changed, reduction::sum);
            }
            const bool reduces = move == kind::all_reduce;
            const axis_set over = move == kind::all_to_all || move == kind::collective_permute
                                      ? axis_set{from.used() | to.used()}
                                      : changed;
            const layout& after = reduces ? from : to;
            if (over == 0 || !is_legal({move, over, after}, before)) continue;
            const comm::transfer t{element::f32, global, before, after, over, reduction::sum};
            const std::int64_t predicted = comm::scratch_of(move, t, apart->sizes(), apart->here());
            const std::int64_t needed = support::make_move(*apart, move, t)->needs().memory;
            wrong += comm::staged() ? needed < predicted : needed != predicted;
            above += !comm::staged() && support::make_move(*shared, move, t)->needs().memory > predicted;
            packing += predicted > 0;
          }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(above, 0);
  EXPECT_TRUE(support::ranks() == 1 || support::over_ranks(packing) > 20);
}

} // namespace CLEAVE_SOURCE
