// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prices in numbers that are written out here: the messages that a device waits for, the workspace, the work of
// products. The simulator counts bytes alone, so nothing else looks at them.
#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace CLEAVE_SOURCE {

using namespace cleave;

const dim_ref batch{"batch", 24}, embed{"embed", 48}, times{"times", 5};
using named_dims = std::initializer_list<std::pair<dim_ref, std::string_view>>;

mesh_value mesh_of(std::int64_t x, std::int64_t y) {
  mesh_value m;
  m.axes = {{"x", x}, {"y", y}};
  return m;
}
spec named(const mesh_value& m, named_dims dims, std::string_view unreduced = "") {
  spec s;
  s.mesh = m;
  for (const auto& [d, axes] : dims) {
    placement p(d);
    for (std::size_t i = 0; i < axes.size(); ++i) p.axes.push_back(axes.substr(i, 1));
    s.dims.push_back(p);
  }
  if (!unreduced.empty()) s.unreduced.push_back(unreduced);
  return s;
}
layout sharded(int position, int axis) {
  layout l;
  l.append(position, axis);
  return l;
}
layout partial(axis_set over) {
  layout l;
  l.set_partial(over);
  return l;
}
cost price(kind what, axis_set over, const layout& from, const layout& to, std::int64_t x, std::int64_t y = 1) {
  shape global;
  global.rank = 2;
  global[0] = 24;
  global[1] = 48;
  axis_sizes sizes;
  sizes[0] = x;
  sizes[1] = y;
  const hop h{what, over, to};
  EXPECT_TRUE(is_legal(h, from)) << name_of(what);
  return price_of(h, from, global, 4, sizes);
}

// 24 x 48 floats are 4608 bytes. A tree over n devices has ceil(log2 n) rounds.
TEST(Prices, OfCollectivesAreBytesAndMessages) {
  const layout whole, rows = sharded(0, 0), columns = sharded(1, 0), sum = partial(1);
  const std::array<std::array<std::int64_t, 2>, 5> devices{{{1, 0}, {2, 1}, {3, 2}, {4, 2}, {8, 3}}};
  for (const auto& [n, rounds] : devices) {
    const std::int64_t all = 4608, part = all / n;
    EXPECT_EQ(price(kind::all_reduce, 1, sum, whole, n), (cost{2 * (all - part), 2 * rounds})) << n;
    EXPECT_EQ(price(kind::reduce_scatter, 1, sum, rows, n), (cost{all - part, rounds})) << n;
    EXPECT_EQ(price(kind::all_gather, 1, rows, whole, n), (cost{all - part, rounds})) << n;
    EXPECT_EQ(price(kind::all_to_all, 1, rows, columns, n), (cost{part - part / n, n - 1})) << n;
    EXPECT_EQ(price(kind::slice, 1, whole, rows, n), (cost{0, 0})) << n;
    EXPECT_EQ(price(kind::mask, 1, whole, sum, n), (cost{0, 0})) << n;
  }
  // A device fetches its new block from as many as share it: rows over x = 4 to columns over y = 2.
  EXPECT_EQ(price(kind::collective_permute, 3, rows, sharded(1, 1), 4, 2), (cost{4608 / 2 * 3 / 4, 4}));
}

TEST(Prices, OfMovesThatAreNotWhatTheyAreCalledDoNotExist) {
  const layout whole, rows = sharded(0, 0), columns = sharded(1, 0), sum = partial(1);
  const auto legal = [](kind what, axis_set over, const layout& from, const layout& to) {
    return is_legal({what, over, to}, from);
  };
  // An all-reduce moves no blocks, and reduces the axes that it says.
  EXPECT_FALSE(legal(kind::all_reduce, 1, sum, rows));
  EXPECT_FALSE(legal(kind::all_reduce, 2, sum, whole));
  EXPECT_FALSE(legal(kind::all_reduce, 1, whole, whole));
  EXPECT_FALSE(legal(kind::reduce_scatter, 1, sum, whole));
  EXPECT_FALSE(legal(kind::all_gather, 1, whole, rows));
  EXPECT_FALSE(legal(kind::all_gather, 2, rows, whole));
  EXPECT_FALSE(legal(kind::all_gather, 1, rows, columns));
  EXPECT_FALSE(legal(kind::slice, 1, rows, whole));
  EXPECT_FALSE(legal(kind::slice, 2, whole, rows));
  EXPECT_FALSE(legal(kind::mask, 2, whole, sum));
  EXPECT_FALSE(legal(kind::all_to_all, 2, rows, columns));
}

/// A program of one input on a mesh, planned for the fewest bytes.
template <class F>
program planned(const mesh_value& m, named_dims input, named_dims output, F f, sizes& at, element made = element::f32) {
  recorder in(m);
  const value x = in.input(element::f32, named(m, input));
  in.output(f(x), made, named(m, output));
  EXPECT_TRUE(in.made().found.ok()) << static_cast<int>(in.made().found.fault) << " in " << in.made().found.op;
  at = sizes_for(in.made());
  program p = partition(in.made(), at, policy::bytes_first(1));
  EXPECT_TRUE(p.found.ok());
  return p;
}

TEST(Prices, OfHalosAreOneMessageANeighbour) {
  const mesh_value m = mesh_of(4, 1);
  sizes at;
  // Two rows from the device before: 2 x 48 floats. Both neighbours: two messages.
  program p = planned(
      m, {{batch, "x"}, {embed, ""}}, {{batch, "x"}, {embed, ""}}, [](value x) { return roll(x, batch, 2); }, at);
  EXPECT_EQ(bytes(p, at), 2 * 48 * 4);
  EXPECT_EQ(messages(p, at), 1);
  p = planned(
      m, {{batch, "x"}, {embed, ""}}, {{batch, "x"}, {embed, ""}},
      [](value x) { return roll(x, batch, 1) + roll(x, batch, -1); }, at);
  EXPECT_EQ(bytes(p, at), 2 * 48 * 4);
  EXPECT_EQ(messages(p, at), 2);
  // The rows of a block in reverse order are those of one other device.
  p = planned(m, {{batch, "x"}, {embed, ""}}, {{batch, "x"}, {embed, ""}}, [](value x) { return flip(x, batch); }, at);
  EXPECT_EQ(bytes(p, at), 6 * 48 * 4);
  EXPECT_EQ(messages(p, at), 1);
  // Every second row of the second half: two rows for a device, which for one lie on two others.
  const dim_ref half{"half"};
  p = planned(
      m, {{batch, "x"}, {embed, ""}}, {{half, "x"}, {embed, ""}},
      [&](value x) { return slice(x, batch, half, 12, to_the_end, 2); }, at);
  EXPECT_EQ(bytes(p, at), 2 * 48 * 4);
  EXPECT_EQ(messages(p, at), 2);
}

TEST(Prices, OfScansSortsAndLookUpsHaveMessages) {
  const mesh_value m = mesh_of(4, 1);
  sizes at;
  program p = planned(
      m, {{batch, "x"}, {embed, ""}}, {{batch, "x"}, {embed, ""}}, [](value x) { return cumulative_sum(x, batch); },
      at);
  EXPECT_EQ(bytes(p, at), 48 * 4);
  EXPECT_EQ(messages(p, at), 2);
  // Seven collectives of n - 1 messages, ten with indices. Three slices in blocks of 1024, of which every 43rd element
  // is a sample: 3/4 of the elements and 43 of each slice, 24 samples of the slice that a device decides for, the cuts
  // of the slices of others with their indices, and two counts of each slice for each other device.
  const dim_ref rows{"rows", 4096}, few{"few", 3};
  const auto planned_along_rows = [&](auto f, element made) {
    return planned(m, {{rows, "x"}, {few, ""}}, {{rows, "x"}, {few, ""}}, f, at, made);
  };
  p = planned_along_rows([&](value x) { return sort(x, rows); }, element::f32);
  EXPECT_EQ(messages(p, at), 7 * 3);
  EXPECT_EQ(bytes(p, at), (9216 + 3 * 43 * 4) + 3 * 24 * 4 + 3 * 3 * (4 + 8) + 2 * 3 * 3 * 8);
  p = planned_along_rows([&](value x) { return argsort(x, rows); }, element::i32);
  EXPECT_EQ(messages(p, at), 10 * 3);
  EXPECT_EQ(bytes(p, at), (2 * 9216 + 3 * 43 * 8) + 3 * 24 * 8 + 3 * 3 * (4 + 8) + 2 * 3 * 3 * 8);
  // More slices than any machine has, of more devices than exist: a number that stops growing.
  at.dims[1] = std::int64_t{1} << 40;
  at.axes[0] = 1 << 20;
  EXPECT_GT(bytes(p, at), std::int64_t{1} << 40);
  // Of 48 slices each device takes twelve whole ones: an all-to-all there and one back.
  p = planned(m, {{batch, "x"}, {embed, ""}}, {{batch, "x"}, {embed, ""}}, [](value x) { return sort(x, batch); }, at);
  EXPECT_EQ(messages(p, at), 2 * 3);
  EXPECT_EQ(bytes(p, at), 2 * 3 * 6 * 12 * 4);
}

TEST(Prices, OfRowsThatAreSentAreRowsAndIndices) {
  tensor_type rows, indices, table;
  for (dim_id d : {dim_id{0}, dim_id{1}}) rows.append(d);
  indices.append(0);
  for (dim_id d : {dim_id{2}, dim_id{1}}) table.append(d);
  rows.element = table.element = element::f32;
  indices.element = element::i32;
  sizes at;
  at.axes[0] = 4;
  at.dims[0] = 20;
  at.dims[1] = 48;
  at.dims[2] = 24;
  placed_op o;
  o.arity = 2;
  o.in[0] = {&rows, sharded(0, 0)};
  o.in[1] = {&indices, sharded(0, 0)};
  o.out = {&table, sharded(0, 0)};
  o.along = 2;
  o.over = 1;
  EXPECT_EQ(rules::moves_of_scatter(o, at), (cost{3 * (5 * 4 + 5 * 48 * 4) / 4, 2 * 3}));
  // To a table that is whole on every device each of them sends all.
  o.out.where = layout{};
  EXPECT_EQ(rules::moves_of_scatter(o, at), (cost{3 * (5 * 4 + 5 * 48 * 4), 2 * 3}));
}

TEST(Prices, OfLookUpsAreIndicesOneWayAndRowsTheOther) {
  const mesh_value m = mesh_of(4, 1);
  recorder in(m);
  const value table = in.input(element::f32, named(m, {{batch, "x"}, {embed, ""}}));
  const dim_ref asked{"asked", 20};
  const value where = in.input(element::i32, named(m, {{asked, "x"}}));
  in.output(gather(table, batch, where), element::f32, named(m, {{asked, "x"}, {embed, ""}}));
  const sizes at = sizes_for(in.made());
  const program p = partition(in.made(), at, policy::bytes_first(1));
  ASSERT_TRUE(p.found.ok());
  // 5 indices of 4 bytes and 5 rows of 48 floats, of which 3/4 lie elsewhere.
  EXPECT_EQ(bytes(p, at), 3 * (5 * 4 + 5 * 48 * 4) / 4);
  EXPECT_EQ(messages(p, at), 2 * 3);
}

TEST(Prices, OfLoopsCountIterations) {
  const mesh_value m = mesh_of(4, 1);
  recorder in(m);
  const value x = in.input(element::f32, named(m, {{batch, "x"}, {embed, ""}})),
              turns = in.input(element::f32, named(m, {{times, ""}}));
  // In every iteration a sum over all devices, which the next one needs.
  in.output(scan(times, x, turns, [&](const value& h, const value& t) { return h * (sum(h, batch) * t); }),
            element::f32, named(m, {{batch, "x"}, {embed, ""}}));
  ASSERT_TRUE(in.made().found.ok()) << static_cast<int>(in.made().found.fault);
  const sizes at = sizes_for(in.made());
  const program p = partition(in.made(), at, policy::bytes_first(1));
  ASSERT_TRUE(p.found.ok());
  EXPECT_EQ(bytes(p, at), 5 * (2 * 3 * 48 * 4 / 4));
  EXPECT_EQ(messages(p, at), 5 * 4);
}

TEST(Prices, OfProductsAreTheWorkOfTheBusiestDevice) {
  // 24 rows over 5 devices are 5 on the busiest.
  const mesh_value m = mesh_of(5, 1);
  recorder in(m);
  const dim_ref hidden{"hidden", 7};
  const value x = in.input(element::f32, named(m, {{batch, "x"}, {embed, ""}})),
              w = in.input(element::f32, named(m, {{embed, ""}, {hidden, ""}})),
              turns = in.input(element::f32, named(m, {{times, ""}}));
  in.output(dot(x, w, embed), element::f32, named(m, {{batch, "x"}, {hidden, ""}}));
  in.output(scan(times, dot(x, w, embed), turns,
                 [&](const value& h, const value& t) { return dot(x * t, w, embed) + h; }),
            element::f32, named(m, {{batch, "x"}, {hidden, ""}}));
  const sizes at = sizes_for(in.made());
  const program p = partition(in.made(), at);
  ASSERT_TRUE(p.found.ok());
  EXPECT_EQ(flops(p, at), (1 + 5) * 2 * 5 * 48 * 7);
  // Sharded along what is contracted: 48 over 5 devices are 10 on the busiest.
  recorder again(m);
  const value y = again.input(element::f32, named(m, {{batch, ""}, {embed, "x"}})),
              v = again.input(element::f32, named(m, {{embed, "x"}, {hidden, ""}}));
  again.output(dot(y, v, embed), element::f32, named(m, {{batch, ""}, {hidden, ""}}));
  const sizes s = sizes_for(again.made());
  EXPECT_EQ(flops(partition(again.made(), s), s), 2 * 24 * 10 * 7);
}

TEST(Prices, OfWorkCountWhatIsContracted) {
  const mesh_value m = mesh_of(5, 1);
  recorder in(m);
  const value x = in.input(element::f32, named(m, {{batch, "x"}, {embed, ""}})),
              w = in.input(element::f32, named(m, {{embed, ""}, {{"hidden", 7}, ""}}));
  const value y = dot(x, w, embed);
  in.output(y, element::f32, named(m, {{batch, "x"}, {{"hidden", 7}, ""}}));
  EXPECT_EQ(rules::flops_of_product(in.made(), in.at(y), sizes_for(in.made())), 2 * 24 * 48 * 7);
}

TEST(Prices, OfWorkspaceAreTheLargestBufferOfEachSlot) {
  program p;
  p.dims.push_back({"a", 24});
  p.dims.push_back({"b", 48});
  p.slots = 3;
  const auto add = [&](std::uint16_t slot, std::initializer_list<dim_id> dims, element e, form f = form::shard) {
    buffer b;
    b.index = slot;
    for (dim_id d : dims) b.type.append(d);
    b.type.element = e;
    b.form = f;
    p.buffers.push_back(b);
  };
  // The largest is neither the first nor the last of its slot; views and slices are parts of others.
  add(0, {0}, element::f32);
  add(0, {0, 1}, element::f32);
  add(0, {1}, element::f64);
  add(1, {0, 1}, element::boolean);
  add(1, {1}, element::f32);
  add(2, {1}, element::f32);
  add(2, {0, 1}, element::f64, form::slice);
  buffer outside;
  outside.role = role::output;
  outside.type = p.buffers[1].type;
  p.buffers.push_back(outside);
  sizes at;
  at.dims[0] = 24;
  at.dims[1] = 48;
  EXPECT_EQ(workspace(p, at), 24 * 48 * 4 + 24 * 48 + 48 * 4);
}

// A size under a wrong name would be ignored, and 0 devices would be divided by.
TEST(Prices, SizesAreThoseOfTheFunction) {
  static constexpr axis<"x"> x;
  static constexpr axis<"y"> y;
  static constexpr mesh two{x, y};
  static constexpr dim<"i"> i;
  static constexpr dim<"j"> j;
  static constexpr dim<"k"> k;
  using A = abstract<double, two(i / x, j / y)>;
  constexpr function total([](auto a) { return sum(a, j); });
  constexpr auto plan = cleave::plan<abstract<double, two(i / x)>(A)>(total);
  std::int64_t of = 64; // not constant
  EXPECT_EQ(plan.bytes({i = of, j = 10, x = 2, y = 2}), 64 / 2 * 8);
  EXPECT_EQ(plan.bytes({i = 0, j = 10, x = 2, y = 2}), 0);
  EXPECT_THROW((void)plan.bytes({k = of}), shape_error);
  EXPECT_THROW((void)plan.bytes({i = -of}), shape_error);
  EXPECT_THROW((void)plan.workspace({x = 0 * of}), shape_error);
  EXPECT_THROW((void)explain(plan, {k = of}), shape_error);
}

inline constexpr cleave::axis<"d"> d;
inline constexpr cleave::dim<"b"> b;
inline constexpr cleave::dim<"p"> p;
inline constexpr cleave::dim<"e"> e;
inline constexpr cleave::dim<"h"> h;
inline constexpr cleave::dim<"k"> k;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::mesh on_d{d};
using States = cleave::abstract<float, on_d(b / d, p, e)>;
using Weights = cleave::abstract<float, on_d(layer, e, h, k)>;
/// At the assumed extents, 4096 of each dim, a step has more operations than 64 bits count.
constexpr cleave::function layers([](auto x, auto all) {
  return cleave::scan(layer, x, all, [](auto v, auto w) { return v + dot(dot(v, w, e), w, h, k); });
});
// Bytes times devices are more than 64 bits hold; the bytes that a device receives are not.
TEST(prices, of_many_devices_do_not_overflow) {
  const shape large{{std::int64_t{1} << 44}, 1};
  const axis_sizes devices{{1 << 20}};
  layout partial, sharded;
  partial.set_partial(axis_bit(0));
  sharded.append(0, 0);
  const auto bytes = [&](kind what, const layout& to) {
    return price_of({what, axis_bit(0), to}, partial, large, 4, devices).bytes;
  };
  EXPECT_EQ(bytes(kind::all_reduce, {}), (std::int64_t{1} << 47) - (std::int64_t{1} << 27));
  EXPECT_EQ(bytes(kind::reduce_scatter, sharded), (std::int64_t{1} << 46) - (std::int64_t{1} << 26));
}
TEST(prices, end_at_the_largest_number) {
  constexpr auto plan = cleave::plan<States(States, Weights)>(layers);
  static_assert(plan.flops() == std::numeric_limits<std::int64_t>::max());
  static_assert(plan.flops({b = 8, p = 8, e = 8, h = 4, k = 2, layer = 3, d = 2}) == 3 * 2 * (2 * 4 * 8 * 8 * 8));
  EXPECT_GE(plan.bytes(), 0);
}

} // namespace CLEAVE_SOURCE
