// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that turn strategies into steps, one by one. Each is followed by its verification, which must also see
// what is broken on purpose.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/simulate/scalar.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;
using namespace cleave::lowering;

constexpr std::string_view x = "x", y = "y";
const dim_ref batch{"batch", 256}, embed{"embed", 64}, hidden{"hidden", 128}, layer{"layer", 8};

using named_dims = std::initializer_list<std::pair<dim_ref, std::string_view>>;
spec layout_named(named_dims dims, std::string_view unreduced = "") {
  spec s;
  s.mesh.axes = {{x, 4}, {y, 2}};
  for (const auto& [d, axis] : dims) {
    placement p(d);
    if (!axis.empty()) p.axes.push_back(axis);
    s.dims.push_back(p);
  }
  if (!unreduced.empty()) s.unreduced.push_back(unreduced);
  return s;
}

/// A program that is recorded, with its strategies, and what the passes make of it.
struct lowered {
  recorder in{layout_named({}).mesh};
  graph g{};
  sizes at{};
  policy rule = policy::time();
  choice chosen{};

  value input(named_dims dims) { return in.input(element::f32, layout_named(dims)); }
  void output(const value& v, named_dims dims) { in.output(v, element::f32, layout_named(dims)); }
  void choose_strategies() {
    g = simplify(in.take());
    at = sizes_for(g);
    chosen = choose(g, at, rule);
    ASSERT_TRUE(chosen.found.ok());
  }
  assigned_graph assigned() const { return {g, chosen.by_node, chosen.factors, at, rule, chosen.copies}; }
  partitioned split() const { return split_values(assigned()); }
  storage_plan place_all(const partitioned& p, const fusion& f) const { return place(assigned(), p, f); }
  emitted emit_all() const {
    const partitioned p = split();
    const fusion f = fuse(assigned(), p);
    const storage_plan m = place_all(p, f);
    EXPECT_TRUE(verify(assigned(), p));
    EXPECT_TRUE(verify(assigned(), p, f));
    EXPECT_TRUE(verify(p, f, m));
    return emit(assigned(), p, f, m);
  }
};

std::size_t count_of(const partitioned& p, origin o) {
  return static_cast<std::size_t>(
      std::ranges::count_if(p.values, [&](const partitioned_value& v) { return v.origin == o; }));
}
std::size_t value_of(const lowered& l, const partitioned& p, op code) {
  for (std::size_t i = 0; i < p.values.size(); ++i)
    if (p.values[i].origin == origin::node && l.g.nodes[p.values[i].node].code == code) return i;
  return none;
}
std::vector<step_kind> kinds_of(const std::vector<step>& steps) {
  std::vector<step_kind> kinds;
  for (const step& s : steps) kinds.push_back(s.kind);
  return kinds;
}
std::size_t step_of(const std::vector<step>& steps, step_kind kind) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].kind == kind) return i;
  return none;
}

/// One residual layer: two products, of which the second is partial over y.
void residual_layer(lowered& l) {
  const value v = l.input({{batch, x}, {embed, ""}});
  const value up = l.input({{embed, ""}, {hidden, y}}), down = l.input({{hidden, y}, {embed, ""}});
  l.output(tanh(v + dot(gelu(dot(v, up, embed)), down, hidden)), {{batch, x}, {embed, ""}});
  l.choose_strategies();
}

TEST(Lower, ProductsThatContractNothingAreElementwise) {
  lowered l;
  const value a = l.input({{batch, x}}), b = l.input({{embed, ""}});
  l.output(tanh(dot(a, b)) + 1, {{batch, x}, {embed, ""}});
  l.choose_strategies();
  EXPECT_EQ(kinds_of(l.emit_all().made.steps), (std::vector{step_kind::map}));
}

/// Every hop of a path takes the value from where the one before it leaves it, and no hop is legal over other axes or
/// from another layout.
TEST(Lower, HopsOfPathsAreLegalCollectives) {
  std::mt19937 random(11);
  axis_sizes sizes;
  sizes[0] = 2, sizes[1] = 3, sizes[2] = 4;
  const auto some = [&] {
    layout l;
    axis_set partial = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const auto where = static_cast<int>(random() % 5);
      if (where < 3) l.append(where, axis);
      if (where == 3) partial = static_cast<axis_set>(partial | axis_bit(axis));
    }
    l.set_partial(partial);
    return l;
  };
  int hops = 0;
  for (int n = 0; n < 3000; ++n) {
    const shape s{{12, 12, 24}, 3};
    layout at = some();
    for (const hop& h : find_path(s, 4, at, some(), sizes, policy::time()).hops) {
      ++hops;
      EXPECT_TRUE(is_legal(h, at)) << name_of(h.move);
      hop other = h;
      other.axes = static_cast<axis_set>(h.axes ^ 8);
      EXPECT_TRUE(h.move == kind::collective_permute || !is_legal(other, at)) << name_of(h.move);
      layout partial = at;
      partial.set_partial(static_cast<axis_set>(at.unreduced() | 8));
      EXPECT_FALSE(is_legal(h, partial)) << name_of(h.move);
      at = h.to;
    }
  }
  EXPECT_GT(hops, 3000);
  EXPECT_FALSE(is_legal({kind::exchange, 1, {}}, {}));
}

TEST(Lower, ValuesAreMovedOnceForAllWhoNeedThemInALayout) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  l.output(exp(v), {{batch, ""}, {embed, ""}});
  l.output(sin(v), {{batch, ""}, {embed, ""}});
  l.choose_strategies();
  // As if the search had decided so: v comes sharded, and both read it whole.
  for (strategy& s : l.chosen.by_node) s.out = layout{};
  l.chosen.by_node[0].out.append(0, 0);
  partitioned p = l.split();
  EXPECT_TRUE(verify(l.assigned(), p));
  ASSERT_EQ(count_of(p, origin::move), 1u);
  const std::size_t sine = value_of(l, p, op::sin), moved = p.values[sine].in[0];
  EXPECT_EQ(p.values[moved].by.move, kind::all_gather);
  EXPECT_EQ(p.values[value_of(l, p, op::exp)].in[0], moved);
  // Not the layout that its strategy requires; another collective; a value that comes later.
  const auto rejects = [&](auto&& change) {
    partitioned broken = p;
    change(broken);
    return !verify(l.assigned(), broken);
  };
  EXPECT_TRUE(rejects([&](partitioned& b) { b.values[sine].in[0] = as_computed(p, 0); }));
  EXPECT_TRUE(rejects([&](partitioned& b) { b.values[moved].by.move = kind::slice; }));
  EXPECT_TRUE(rejects([&](partitioned& b) { b.values[moved].in[0] = sine; }));
  EXPECT_TRUE(rejects([&](partitioned& b) { b.values[moved].where.append(0, 1); }));
  EXPECT_TRUE(rejects([&](partitioned& b) { b.results.pop_back(); }));
}

TEST(Lower, NeighboursShareOneRegion) {
  lowered l;
  const value v = exp(l.input({{batch, x}, {embed, ""}}));
  l.output(shift(v, batch, 1) + shift(v, batch, -1) - v, {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const partitioned p = l.split();
  EXPECT_TRUE(verify(l.assigned(), p));
  EXPECT_EQ(p.regions.all.size(), 1u);
  EXPECT_EQ(p.regions.all[0].members.size(), 2u);
  EXPECT_EQ(count_of(p, origin::region), 1u);
  // One element before and one after each block, of every row.
  EXPECT_EQ(p.regions.all[0].bytes, 2 * 64 * 4);
}

// A region that is read far from the shard in both directions has much between that no reader wants.
TEST(Lower, FarNeighboursHaveRegionsOfTheirOwn) {
  for (const int reach : {8, 40}) {
    lowered l;
    const value v = exp(l.input({{batch, x}, {embed, ""}}));
    l.output(shift(v, batch, reach) + shift(v, batch, -reach), {{batch, x}, {embed, ""}});
    l.choose_strategies();
    const partitioned p = l.split();
    EXPECT_TRUE(verify(l.assigned(), p));
    EXPECT_EQ(p.regions.all.size(), 2 * reach <= widest_shared_region ? 1u : 2u);
  }
}

/// The sum of what is `reach` away in both directions along both dims, and the corners.
value wide_stencil(const value& v, int reach) {
  value sum = -8.0f * v;
  for (int d = 1; d <= reach; ++d)
    for (int sign : {-1, 1}) {
      sum = sum + roll(v, batch, sign * d) + shift(v, embed, sign * d);
      sum = sum + roll(roll(v, batch, sign * d), embed, d);
    }
  return sum;
}

TEST(Lower, StencilsAreOnePassOverAShardAndItsHalo) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  value sum = -4.0f * v;
  for (int d : {-3, -2, -1, 1, 2, 3}) sum = sum + roll(v, batch, d) + roll(v, embed, d);
  l.output(sum, {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const program p = allocate(l.emit_all());
  EXPECT_TRUE(verify(p));
  EXPECT_EQ(std::ranges::count(p.steps, step_kind::map, &step::kind), 1);
  EXPECT_EQ(p.steps.size(), 2u);
  // Three rows before the shard and three after it; the columns of a row that go on at its other end lie in the shard.
  EXPECT_EQ(parts_of_workspace(p, l.at).values, 6 * 64 * 4);
  // Both ends are one message to the one other device, which is packed and unpacked.
  EXPECT_EQ(workspace(p, l.at), 3 * 6 * 64 * 4);
  EXPECT_EQ(bytes(p, l.at), 6 * 64 * 4);
  // The shard is an operand of the step beside its halo.
  program hidden_shard = p;
  for (step& s : hidden_shard.steps)
    if (s.kind == step_kind::map) {
      static_vector<std::uint16_t, max_operands> views;
      for (std::uint16_t b : s.in)
        if (p.buffers[b].form == form::view) views.push_back(b);
      s.in = views;
      for (fused_op& t : hidden_shard.fused_ops)
        if (t.code == op::input) t.arg = 0;
    }
  EXPECT_FALSE(verify(hidden_shard));
}

TEST(Lower, RangesOfIndicesAreNotMasksInMemory) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  const auto swept = [](const value& u) {
    return interior(roll(u, batch, 1) + roll(u, embed, -1), u, 2, batch, embed);
  };
  // A mask that something else reads is made for it alone.
  const value mask = broadcast(iota(v, embed) >= 3, batch, embed) & broadcast(iota(v, batch) < 5, batch, embed);
  l.output(repeat_times(4, select(mask, swept(v), 0.0f), swept), {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const program p = allocate(l.emit_all());
  EXPECT_TRUE(verify(p));
  for (const buffer& b : p.buffers) EXPECT_NE(b.type.element, element::boolean);
  // In the loop a stencil of what is carried is one pass beside it; then both exchange their memory.
  std::vector<const step*> inside;
  for (const step& s : p.steps)
    if (s.in_loop != 0 && s.kind == step_kind::map) inside.push_back(&s);
  ASSERT_EQ(inside.size(), 2u);
  EXPECT_GT(inside[0]->ops, 10);
  EXPECT_EQ(inside[1]->ops, 1);
  EXPECT_EQ(inside[1]->in[0], inside[0]->out);
}

TEST(Lower, StatementsWithNumbersAreOnePass) {
  const auto shape_of_maps = [](const auto& made_of) {
    lowered l;
    made_of(l);
    l.choose_strategies();
    const program p = allocate(l.emit_all());
    EXPECT_TRUE(verify(p));
    return std::pair(std::ranges::count(p.steps, step_kind::map, &step::kind), p.steps.size());
  };
  // The last stage of a Runge-Kutta method: five arrays, one of them the result's, and five numbers.
  EXPECT_EQ(shape_of_maps([](lowered& l) {
              std::vector<value> k, c;
              for (int i = 0; i < 5; ++i) k.push_back(l.input({{batch, x}, {embed, ""}}));
              for (int i = 0; i < 5; ++i) c.push_back(l.input({}));
              l.output(c[0] * k[0] + c[1] * (c[2] * k[1] + c[3] * k[2] + c[4] * k[3] + k[4]),
                       {{batch, x}, {embed, ""}});
            }),
            std::pair(std::ptrdiff_t{1}, std::size_t{1}));
  // So many arrays are read in one pass, besides a number; one more is not.
  for (const std::size_t arrays : {lowering::most_arrays, lowering::most_arrays + 1})
    EXPECT_EQ(shape_of_maps([&](lowered& l) {
                value sum = l.input({}) * l.input({{batch, x}, {embed, ""}});
                for (std::size_t i = 1; i < arrays; ++i) sum = sum + l.input({{batch, x}, {embed, ""}});
                l.output(sum, {{batch, x}, {embed, ""}});
              }).first,
              arrays == lowering::most_arrays ? 1 : 2);
}

TEST(Lower, CarriedValuesGoOnBeforeThoseThatTheirStepReads) {
  const auto maps_in_loop = [](bool reads_later) {
    lowered l;
    const value v = l.input({{batch, x}, {embed, ""}}), w = l.input({{batch, x}, {embed, ""}});
    const auto last = repeat_times(4, std::array{v, w, v * 2.0f}, [&](const auto& s) {
      const value turned = sin(s[1]), of_both = s[0] + 3.0f * s[2];
      if (reads_later) return std::array{of_both, turned, turned * s[2]};
      return std::array{turned * s[0], turned, of_both};
    });
    l.output(last[0] + last[1] * last[2], {{batch, x}, {embed, ""}});
    l.choose_strategies();
    const program p = allocate(l.emit_all());
    EXPECT_TRUE(verify(p));
    std::vector<std::size_t> ops;
    for (const step& s : p.steps)
      if (s.in_loop != 0 && s.kind == step_kind::map) ops.push_back(s.ops);
    return ops;
  };
  // sin; s[0] + 3 s[2], while s[2] is as it was; what s[2] becomes; and last the copy of the sine, which is none when
  // the program runs, since nothing needs the memory of the sine any more.
  const std::vector<std::size_t> in_order = maps_in_loop(true);
  ASSERT_EQ(in_order.size(), 4u);
  EXPECT_EQ(in_order[1], 5u);
  EXPECT_EQ(in_order.back(), 1u);
  // Here s[0] has gone on when s[2] does: what reads both is computed before.
  EXPECT_EQ(maps_in_loop(false).size(), 5u);
}

TEST(Lower, InnerProductsAreSumsOfProducts) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}}), w = l.input({{batch, x}, {embed, ""}});
  l.output(dot(sin(v), w, batch, embed) * dot(sin(v), w, batch, embed), {});
  l.choose_strategies();
  const program p = allocate(l.emit_all());
  EXPECT_EQ(step_of(p.steps, step_kind::gemm), none);
  EXPECT_EQ(std::ranges::count(p.steps, step_kind::fold, &step::kind), 1);
  // Over some dims it is a product.
  lowered some;
  const value a = some.input({{batch, x}, {embed, ""}});
  some.output(dot(a, a, embed), {{batch, x}});
  some.choose_strategies();
  EXPECT_NE(step_of(allocate(some.emit_all()).steps, step_kind::gemm), none);
}

TEST(Lower, StencilsOfComputedValuesKeepTheirShard) {
  lowered l;
  const value v = exp(l.input({{batch, x}, {embed, y}}));
  l.output(wide_stencil(v, 2), {{batch, x}, {embed, y}});
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  const program p = allocate(emitted(e));
  EXPECT_TRUE(verify(p));
  const auto last = std::ranges::find_if(p.steps, [&](const step& s) {
    return s.kind == step_kind::map &&
           std::ranges::any_of(s.in, [&](std::uint16_t b) { return p.buffers[b].form == form::view; });
  });
  ASSERT_NE(last, p.steps.end());
  // Written over the shard and copied from there: elements would be gone before their neighbours are computed.
  program over = p;
  step& in_place = over.steps[static_cast<std::size_t>(last - p.steps.begin())];
  const std::uint16_t result = in_place.out;
  for (std::uint16_t b : in_place.in)
    if (p.buffers[b].form == form::view) in_place.out = p.buffers[p.buffers[b].of].of;
  EXPECT_NE(in_place.out, result);
  step copy = in_place;
  copy.in = {in_place.out};
  copy.out = result;
  copy.first_op = static_cast<std::uint32_t>(over.fused_ops.size());
  copy.ops = 1;
  fused_op load;
  load.code = op::input;
  load.type = element::f32;
  over.fused_ops.push_back(load);
  over.steps.push_back(copy);
  EXPECT_FALSE(verify(over));
}

TEST(Lower, FusesWhatOneStepReads) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  const value once = exp(v), twice = sin(v);
  l.output(sum(tanh(once), embed), {{batch, x}});
  l.output(twice * 2.0f, {{batch, x}, {embed, ""}});
  l.output(sum(twice, batch), {{embed, ""}});
  l.choose_strategies();
  const partitioned p = l.split();
  const fusion f = fuse(l.assigned(), p);
  EXPECT_TRUE(verify(l.assigned(), p, f));
  EXPECT_TRUE(f.fused[value_of(l, p, op::exp)]);
  EXPECT_TRUE(f.fused[value_of(l, p, op::tanh)]);
  EXPECT_TRUE(f.fused[value_of(l, p, op::constant)]);
  // Two steps read it.
  EXPECT_FALSE(f.fused[value_of(l, p, op::sin)]);
  EXPECT_FALSE(f.fused[value_of(l, p, op::reduce)]);
  const auto rejects = [&](op code, bool fused) {
    fusion broken = f;
    broken.fused[value_of(l, p, code)] = fused;
    return !verify(l.assigned(), p, broken);
  };
  EXPECT_TRUE(rejects(op::sin, true));
  EXPECT_TRUE(rejects(op::reduce, true));
}

TEST(Lower, ReadersMakeAgainWhatWouldTakeLongerToRead) {
  enum class what { softmax, two_operands, three_readers, one_hot, function_of_double, in_a_loop };
  const auto passes_over_all = [](what w) {
    lowered l;
    const spec rows = layout_named({{batch, x}, {embed, ""}});
    const element type = w == what::function_of_double ? element::f64 : element::f32;
    const value v = l.in.input(type, rows), other = l.in.input(type, rows);
    const value labels = l.in.input(element::i32, layout_named({{batch, x}}));
    const auto made = [&](const value& from) -> value {
      if (w == what::one_hot) {
        const value hit = one_hot(labels, embed, element::f32);
        return from * hit + sum(from * hit, embed);
      }
      const value e = exp(w == what::two_operands ? from - other : from - max(from, embed));
      return e / (sum(e, embed) + (w == what::three_readers ? max(e, embed) : sum(from, embed)));
    };
    const value result = w == what::in_a_loop ? repeat_times(3, v, [&](const value& h) { return made(h); }) : made(v);
    l.in.output(result, type, rows);
    l.choose_strategies();
    const program p = allocate(l.emit_all());
    EXPECT_TRUE(verify(p));
    std::int64_t written = 0;
    for (const step& s : p.steps) written += s.kind == step_kind::map && p.buffers[s.out].type.rank == 2 ? 1 : 0;
    return std::pair(written, workspace(p, l.at) >= 256 / 4 * 64 * size_of(type));
  };
  EXPECT_EQ(passes_over_all(what::softmax), std::pair(std::int64_t{1}, false));
  EXPECT_EQ(passes_over_all(what::one_hot), std::pair(std::int64_t{1}, false));
  EXPECT_EQ(passes_over_all(what::two_operands), std::pair(std::int64_t{2}, true));
  EXPECT_EQ(passes_over_all(what::three_readers), std::pair(std::int64_t{2}, true));
  EXPECT_EQ(passes_over_all(what::function_of_double), std::pair(std::int64_t{2}, true));
  EXPECT_TRUE(passes_over_all(what::in_a_loop).second);
}

TEST(Lower, FormulasOfAnyLengthAreOnePass) {
  lowered l;
  const value a = l.input({{batch, x}, {embed, ""}});
  value v = a;
  for (int i = 0; i < 700; ++i) v = i % 2 == 0 ? exp(v) : v * a;
  l.output(v, {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  ASSERT_EQ(e.made.steps.size(), 1u);
  EXPECT_EQ(e.made.steps[0].ops, 701);
}

TEST(Lower, ValuesWithSeveralReadersInAPassAreComputedOnceThere) {
  // A limiter: every value between has several readers.
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  const value low = l.input(where), high = l.input(where), flow = l.input(where);
  const value right = flow > 0.0f, donor = select(right, low, high), up = select(right, high, low);
  const value slope = donor - up, size = abs(slope);
  l.output(flow * (donor + select(slope * up > 0.0f, minimum(size, abs(up)) * (size + 1.0f), slope)), where);
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  ASSERT_EQ(e.made.steps.size(), 1u);
  const auto counted = [&](op code) { return std::ranges::count(e.made.fused_ops, code, &fused_op::code); };
  EXPECT_EQ(counted(op::input), 3);
  EXPECT_EQ(counted(op::sub), 1);
  EXPECT_EQ(counted(op::abs), 2);
}

TEST(Lower, APassReadsAsManyArraysAsAreWorthwhile) {
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  value sum_of_all = l.input(where);
  for (std::size_t i = 1; i < 3 * most_arrays; ++i) sum_of_all = sum_of_all + l.input(where);
  l.output(sum_of_all, where);
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  EXPECT_EQ(e.made.steps.size(), 4u);
  for (const step& s : e.made.steps) EXPECT_LE(s.in.size(), most_arrays);
}

/// The steps of a program whose maps are joined to passes: how many results each pass has.
std::vector<std::size_t> results_of_passes(const program& p) {
  std::vector<std::size_t> results;
  for (const step& s : p.steps) {
    if (is_in_pass(s)) ++results.back();
    else if (s.kind == step_kind::map) results.push_back(1);
  }
  return results;
}
emitted joined(const lowered& l) {
  emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  pass_joining(e).run();
  EXPECT_TRUE(verify(e));
  return e;
}

TEST(Lower, MapsThatShareOperandsAreOnePass) {
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  const value w = l.input(where), m = l.input(where), v = l.input(where), g = l.input(where);
  const value next_m = 0.9f * m + 0.1f * g, next_v = 0.99f * v + 0.01f * (g * g);
  l.output(w - next_m / (sqrt(next_v) + 1e-8f), where);
  l.output(next_m, where);
  l.output(next_v, where);
  l.choose_strategies();
  const emitted e = joined(l);
  const program p = allocate(emitted(e));
  EXPECT_TRUE(verify(p));
  EXPECT_EQ(results_of_passes(p), std::vector<std::size_t>{3});
  // Results are read as they are computed, and every operand once. No operation is left of the maps that were joined.
  EXPECT_EQ(p.steps[0].in.size(), 4u);
  EXPECT_EQ(std::ranges::count(p.fused_ops, op::input, &fused_op::code), 4);
  EXPECT_EQ(p.fused_ops.size(), p.steps.back().ops);
  EXPECT_EQ(p.slots, 0u);
  // Each map of a pass has the same operands and the same list of operations, and memory of its own.
  const auto rejects = [&](auto change) {
    program broken = p;
    change(broken.steps[1]);
    return !verify(broken);
  };
  EXPECT_TRUE(rejects([](step& s) { s.in.items[0] = s.in.items[1]; }));
  EXPECT_TRUE(rejects([](step& s) { s.ops = 1; }));
  EXPECT_TRUE(rejects([](step& s) { s.first_op = 1; }));
  EXPECT_TRUE(rejects([&](step& s) { s.out = p.steps[0].out; }));
  EXPECT_TRUE(rejects([&](step& s) { s.in_loop = 1; }));
  EXPECT_FALSE(rejects([](step&) {}));
}

TEST(Lower, ValuesWithinAPassAreNotStored) {
  // Both results read a value that is too expensive to compute twice.
  const auto workspace_with = [](bool read_elsewhere) {
    lowered l;
    const named_dims where{{batch, x}, {embed, ""}};
    const value a = l.input(where), b = l.input(where), both = tanh(a * b);
    l.output(both * a, where);
    l.output(both - b, where);
    if (read_elsewhere) l.output(sum(both, embed), {{batch, x}});
    l.choose_strategies();
    const program p = allocate(joined(l));
    EXPECT_TRUE(verify(p));
    EXPECT_EQ(results_of_passes(p), std::vector<std::size_t>{read_elsewhere ? 3u : 2u});
    return workspace(p, l.at);
  };
  EXPECT_EQ(workspace_with(false), 0);
  EXPECT_EQ(workspace_with(true), 256 / 4 * 64 * 4);
}

TEST(Lower, PassesGrowBeyondTheirLimitsIfTheyEndWithinThem) {
  // Eight values that the last map alone reads with both operands: more results than a pass may have.
  const auto passes = [](bool all_are_read) {
    lowered l;
    const named_dims where{{batch, x}, {embed, ""}};
    const value a = l.input(where), b = l.input(where);
    value total = a, products = b;
    for (int i = 0; i < 8; ++i) {
      const value one = tanh(a * (b + static_cast<float>(i)));
      total = total + one * b;
      products = products * (one - a);
      if (all_are_read) l.output(one, where);
    }
    l.output(total, where);
    l.output(products, where);
    l.choose_strategies();
    const program p = allocate(joined(l));
    EXPECT_TRUE(verify(p));
    return results_of_passes(p);
  };
  EXPECT_EQ(passes(false), std::vector<std::size_t>{2});
  const std::vector<std::size_t> parts = passes(true);
  EXPECT_GT(parts.size(), 1u);
  for (std::size_t results : parts) EXPECT_LE(results, std::size_t{max_results});
}

TEST(Lower, ConditionsAtFacesAreNotStored) {
  // The mirrored field of both dims, read in a corner by two results.
  lowered l;
  const named_dims where{{batch, ""}, {embed, ""}};
  const value a = l.input(where), b = l.input(where);
  const auto mirrored = [&](const value& v, dim_ref d) {
    return select(iota(v, d) < 1, -shift(v, d, 1, border::edge), shift(v, d, 1, border::edge));
  };
  const value corner = mirrored(mirrored(a, batch), embed);
  l.output(corner * b, where);
  l.output(tanh(corner) - b, where);
  l.choose_strategies();
  const program p = allocate(joined(l));
  EXPECT_TRUE(verify(p));
  EXPECT_EQ(results_of_passes(p), std::vector<std::size_t>{2});
  EXPECT_EQ(std::ranges::count(p.steps, step_kind::exchange, &step::kind), 1);
}

/// The results of a pass, which are those of the given operations, at an index of its loop. Operands are numbers.
std::vector<double> values_at(const indexed_span<const fused_op>& ops, const std::vector<std::size_t>& results,
                              const std::vector<std::int64_t>& index, const sizes& at) {
  std::vector<double> value;
  for (const fused_op& o : ops) {
    double v = 0;
    if (o.code == op::input) v = 1.5 + o.arg;
    else if (o.code == op::constant) v = o.scalar;
    else if (o.code == op::iota) v = static_cast<double>(index[o.arg]);
    else if (o.code == op::count) {
      v = 1;
      for (dim_id d = 0; d < max_dims; ++d)
        if (o.over.contains(d)) v *= static_cast<double>(at[d]);
    } else {
      const element in = ops[o.in[typed_operand(o.code)]].type;
      v = simulation::applied(o.code, in, o.type, value[o.in[0]], value[o.in[1]], value[o.in[2]]);
    }
    value.push_back(v);
  }
  std::vector<double> all;
  for (std::size_t r : results) all.push_back(value[r]);
  return all;
}
/// The first box of a step that has an index; its end.
const index_bound& box_at(const program& p, const step& s, const std::vector<std::int64_t>& index, const sizes& at) {
  bool inside = true;
  for (const index_bound& b : bounds_of(p, s)) {
    if (b.ends && inside) return b;
    const std::int64_t i = b.dim < 0 ? 0 : index[as_size(b.dim)];
    inside = b.ends || (inside && (i < evaluated(b.at, at)) == b.upper);
  }
  throw std::logic_error("no box has the index");
}
/// Checks that the only pass of a program has the same values with boxes as without. The number of its expressions.
std::size_t expressions_of_boxes(const lowered& l) {
  emitted e = joined(l);
  range_cutting(e.made).run();
  const program p = allocate(std::move(e));
  EXPECT_TRUE(verify(p));
  const std::size_t i = step_of(p.steps, step_kind::map), end = i + pass_of(p.steps, i).size();
  const step &s = p.steps[i], &last = p.steps[end - 1];
  std::vector<std::size_t> whole, resolved;
  for (std::size_t k = i; k < end; ++k) whole.push_back(p.steps[k].ops - 1u);
  std::size_t expressions = 0;
  for (const index_bound& b : bounds_of(p, s))
    expressions = std::max<std::size_t>(expressions, b.ends ? b.expression + 1u : 0);
  for (std::int64_t rows : {1, 2, 3, 5, 12})
    for (std::int64_t cols : {1, 2, 4, 9}) {
      sizes at = l.at;
      at.dims[s.loop[0]] = rows;
      at.dims[s.loop[1]] = cols;
      for (std::int64_t row = 0; row < rows && expressions > 0; ++row)
        for (std::int64_t col = 0; col < cols; ++col) {
          const index_bound& box = box_at(p, s, {row, col}, at);
          const bool all = box.first_op == s.first_op;
          resolved = whole;
          for (std::size_t k = 0; k < resolved.size() && !all; ++k) resolved[k] = box.ops - resolved.size() + k;
          EXPECT_EQ(values_at(fused_ops_of(p, box), resolved, {row, col}, at),
                    values_at(fused_ops_of(p, last), whole, {row, col}, at))
              << rows << " x " << cols << " at " << row << ", " << col;
        }
    }
  return expressions;
}

TEST(Lower, RangesOfIndicesAreBoxesOfThePlan) {
  const named_dims where{{batch, x}, {embed, ""}};
  const auto expressions = [&](const auto& f, int results = 1) {
    lowered l;
    const value a = l.input(where), b = l.input(where);
    for (int k = 0; k < results; ++k)
      l.output(f(a, b, broadcast(iota(a, batch), batch, embed), broadcast(iota(a, embed), batch, embed)) +
                   (1.0f + static_cast<float>(k)),
               where);
    l.choose_strategies();
    return expressions_of_boxes(l);
  };
  const auto inside = [](auto a, auto b, auto, auto) { return interior(2.0f * a, b, 2, batch, embed); };
  EXPECT_EQ(expressions(inside), 2u);
  const auto nested = [](auto a, auto b, auto i, auto j) {
    const auto edge = (i == 0) | !(j + 1 != 3) | (7 - i <= 4);
    return select((i >= 1) & (4 > j), select(edge, 3.0f * a, a), select(edge, b, 0.5f));
  };
  EXPECT_EQ(expressions(nested), 4u);
  const auto layers = [](auto a, auto b, auto i, auto) {
    value made = b;
    for (int k = 1; k < 7; ++k) made = select(i == k, static_cast<float>(k) * a, made);
    return made;
  };
  EXPECT_EQ(expressions(layers), 7u);
  // One expression of the middle, and one that compares.
  const auto many = [](auto a, auto b, auto i, auto j) {
    value sum = b;
    for (int k = 1; k < 7; ++k) sum = sum + select(i < k, static_cast<float>(k) * a, b) * select(j != k, a, 2.0f);
    return sum;
  };
  EXPECT_EQ(expressions(many), 2u);
  EXPECT_EQ(expressions(nested, 3), 2u);
  // Extents alone decide.
  const auto extents = [](auto a, auto b, auto i, auto) {
    const value long_enough = count<int>(a, embed) > 3;
    return select(broadcast(long_enough, batch, embed), select(i < 1, a, b), 3.0f * a);
  };
  EXPECT_GE(expressions(extents), 2u);
  // A comparison of two indices is no range, and neither is that of a sum that could wrap.
  EXPECT_EQ(expressions([](auto a, auto b, auto i, auto j) { return select(i < j, a, b); }), 0u);
  EXPECT_EQ(expressions([](auto a, auto b, auto i, auto) { return select(i + 2147483645 > 0, a, b); }), 0u);
}

TEST(Lower, PredicatesOfIndicesHaveNoMemory) {
  // Together with a stencil, when no other value with several readers is computed by each of them.
  const auto stored = [](const auto& condition) {
    lowered l;
    const value a = l.input({{batch, x}, {embed, ""}}), b = l.input({{batch, x}}), mask = condition(iota(b, batch));
    l.output(select(mask, shift(a, batch, 1), a), {{batch, x}, {embed, ""}});
    l.output(select(mask, 2.0f * b, b), {{batch, x}});
    l.choose_strategies();
    return std::ranges::count(l.emit_all().made.buffers, element::boolean,
                              [](const buffer& m) { return m.type.element; });
  };
  EXPECT_EQ(stored([](auto i) { return (i + 1 > 2) & !(i == 9); }), 0);
  EXPECT_EQ(stored([](auto i) { return i * i > 9; }), 1);
}

TEST(Lower, APlanSaysTheBoundsOfTheInterior) {
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  const value a = l.input(where), b = l.input(where);
  l.output(interior(2.0f * a, b, 3, batch), where);
  l.choose_strategies();
  const program p = lower(l.g, l.chosen, l.at, l.rule);
  ASSERT_EQ(p.steps.size(), 1u);
  const indexed_span<const index_bound> bounds = bounds_of(p, p.steps[0]);
  ASSERT_EQ(bounds.size(), 4u);
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(bounds[k].dim, 0);
    EXPECT_EQ(bounds[k].upper, k == 1);
    EXPECT_EQ(evaluated(bounds[k].at, l.at), k == 1 ? 256 - 3 : 3);
  }
  // Inside a product, and elsewhere the values that are there already.
  EXPECT_EQ(fused_ops_of(p, bounds[2]).back().code, op::mul);
  EXPECT_EQ(bounds[3].ops, 1);
  EXPECT_EQ(fused_ops_of(p, bounds[3])[0].code, op::input);
}

TEST(Lower, LabelsAreMarkedInThePlan) {
  const auto sum_of = [](const auto& term) {
    lowered l;
    const value scores = l.input({{batch, x}, {embed, ""}});
    const value label = cast(l.input({{batch, x}}), element::i32) + 0;
    l.output(sum(term(scores, label), embed), {{batch, x}});
    l.choose_strategies();
    const program p = lower(l.g, l.chosen, l.at, l.rule);
    const step& fold = p.steps[step_of(p.steps, step_kind::fold)];
    int marks = 0;
    for (const fused_op& o : fused_ops_of(p, fold)) marks += o.code == op::equal && o.arg != 0 ? 1 : 0;
    if (fold.one_term != 0) {
      EXPECT_EQ(fused_ops_of(p, fold)[fold.one_term - 1u].code, op::equal);
    }
    return std::pair(marks, fold.one_term != 0);
  };
  EXPECT_EQ(sum_of([](auto v, auto k) { return v * one_hot<float>(k, embed); }), std::pair(1, true));
  EXPECT_EQ(sum_of([](auto v, auto k) { return select(one_hot<bool>(k, embed), v, 0.0f); }), std::pair(1, true));
  EXPECT_EQ(sum_of([](auto v, auto k) { return select(one_hot<bool>(k, embed), v, 1.0f); }), std::pair(1, false));
  EXPECT_EQ(sum_of([](auto v, auto k) { return v + one_hot<float>(k, embed); }), std::pair(1, false));
}

TEST(Lower, CornersOfShardedFieldsAreReadAtOnceIfThatIsFaster) {
  // A mirrored field, read in a corner. At once it has more neighbours. In two steps, a value is stored between them.
  const auto made = [](std::int64_t length) {
    recorder in{layout_named({}).mesh};
    const dim_ref rows{"rows", length}, columns{"columns", length};
    const spec where = layout_named({{rows, x}, {columns, y}});
    const value a = in.input(element::f64, where);
    const auto mirrored = [](const value& v, dim_ref d) {
      return select(iota(v, d) < 1, -shift(v, d, 1, border::reflect), shift(v, d, 1, border::reflect));
    };
    in.output(a + mirrored(mirrored(a, rows), columns), element::f64, where);
    const graph g = in.take();
    const program p = partition(g, sizes_for(g), policy::time());
    EXPECT_TRUE(p.found.ok());
    return p;
  };
  const program large = made(4096), small = made(16);
  EXPECT_EQ(results_of_passes(large), std::vector<std::size_t>{1});
  EXPECT_EQ(std::ranges::count(large.steps, step_kind::exchange, &step::kind), 1);
  // Lines of a shard are in memory, no shard is.
  EXPECT_LT(workspace(large, sizes_for(large)), 8 * (4096 / 4) * (4096 / 2) / 100);
  EXPECT_EQ(std::ranges::count(small.steps, step_kind::exchange, &step::kind), 2);
}

TEST(Lower, IndicesThatMeetValuesStayAlone) {
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  const value a = l.input(where), b = l.input(where);
  l.output(a * b, where);
  l.output(select(iota(a, embed) == cast(b, element::i32), a, b), where);
  l.choose_strategies();
  EXPECT_EQ(results_of_passes(allocate(joined(l))), (std::vector<std::size_t>{1, 1}));
}

TEST(Lower, PassesKeepTheOrderOfWhatDepends) {
  const named_dims where{{batch, x}, {embed, ""}};
  const auto passes = [&](auto record) {
    lowered l;
    const value a = l.input(where), b = l.input(where);
    record(l, a, b);
    l.choose_strategies();
    const program p = allocate(joined(l));
    EXPECT_TRUE(verify(p));
    return results_of_passes(p);
  };
  using results = std::vector<std::size_t>;
  // A sum in between depends on the first map, and the last one on the sum.
  EXPECT_EQ(passes([&](lowered& l, const value& a, const value& b) {
              const value first = tanh(a) * b;
              l.output(first, where);
              l.output(first - sum(first, embed) * b, where);
            }),
            (results{1, 1}));
  // A sum that only the second map needs comes before both.
  EXPECT_EQ(passes([&](lowered& l, const value& a, const value& b) {
              l.output(tanh(a) * b, where);
              l.output(a - sum(b, embed) * b, where);
            }),
            (results{2}));
  // Neighbours of a result are not there as it is computed.
  EXPECT_EQ(passes([&](lowered& l, const value& a, const value& b) {
              const value first = tanh(a) * b;
              l.output(first, where);
              l.output(shift(first, batch, 1) * b - a, where);
            }),
            (results{1, 1}));
  // Neighbours of an operand are, as is another map without any.
  EXPECT_EQ(passes([&](lowered& l, const value& a, const value& b) {
              l.output(tanh(a) * b, where);
              l.output(shift(a, batch, 1) * b - a, where);
            }),
            (results{2}));
  // Nothing is shared.
  EXPECT_EQ(passes([&](lowered& l, const value& a, const value& b) {
              l.output(tanh(a) * 2.0f, where);
              l.output(tanh(b) * 2.0f, where);
            }),
            (results{1, 1}));
}

TEST(Lower, APassHasAsManyArraysAsAreWorthwhile) {
  const auto passes = [](std::size_t own) {
    lowered l;
    const named_dims where{{batch, x}, {embed, ""}};
    const value shared = l.input(where);
    for (int r = 0; r < 2; ++r) {
      value all = shared;
      for (std::size_t i = 0; i < own; ++i) all = all * 2.0f + l.input(where);
      l.output(all, where);
    }
    l.choose_strategies();
    return results_of_passes(allocate(joined(l)));
  };
  // One operand that they share, their own, and two results.
  const std::size_t fit = (most_arrays_in_pass - 3) / 2;
  EXPECT_EQ(passes(fit), std::vector<std::size_t>{2});
  EXPECT_EQ(passes(fit + 1), (std::vector<std::size_t>{1, 1}));
  // Nor more results than a pass can have.
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  const value a = l.input(where);
  for (int r = 0; r < max_results + 2; ++r) l.output(a * float(r + 2), where);
  l.choose_strategies();
  EXPECT_EQ(results_of_passes(allocate(joined(l))), (std::vector<std::size_t>{max_results, 2}));
}

TEST(Lower, CarriedValuesOfOnePassAreWrittenInPlace) {
  lowered l;
  const named_dims where{{batch, x}, {embed, ""}};
  const value g = l.input(where);
  const auto last = repeat_times(4, std::array{l.input(where), g * 2.0f, g * 3.0f}, [&](const auto& s) {
    const value m = 0.9f * s[1] + 0.1f * g, v = 0.99f * s[2] + 0.01f * (g * g);
    return std::array{s[0] - m / (sqrt(v) + 1e-8f), m, v};
  });
  for (const value& r : last) l.output(r, where);
  l.choose_strategies();
  const program p = allocate(joined(l));
  EXPECT_TRUE(verify(p));
  std::size_t in_loop = 0, in_place = 0;
  for (const step& s : p.steps) {
    if (s.in_loop == 0 || s.kind != step_kind::map) continue;
    ++in_loop;
    for (std::uint16_t b : s.in)
      in_place += p.buffers[b].role == p.buffers[s.out].role && p.buffers[b].index == p.buffers[s.out].index ? 1 : 0;
  }
  EXPECT_EQ(in_loop, 3u);
  EXPECT_EQ(in_place, 3u);
  // Of the multiples of g, which are computed before the loop.
  EXPECT_EQ(p.slots, 2u);
}

TEST(Lower, AllReducesRunInPlaceAndResultsWhereTheCallerWantsThem) {
  lowered l;
  residual_layer(l);
  const partitioned p = l.split();
  const fusion f = fuse(l.assigned(), p);
  const storage_plan m = l.place_all(p, f);
  EXPECT_TRUE(verify(p, f, m));
  for (std::size_t i = 0; i < p.values.size(); ++i)
    if (p.values[i].origin == origin::move && p.values[i].by.move == kind::all_reduce) {
      EXPECT_EQ(m.of[i], m.of[p.values[i].in[0]]);
    }
  EXPECT_TRUE(written_in_place(p, m, 0));
  EXPECT_EQ(m.storages[m.of[as_computed(p, l.g.inputs[1])]].role, role::input);
  storage_plan broken = m;
  broken.storages[m.of[as_computed(p, l.g.inputs[1])]] = broken.storages[m.of[p.results[0]]];
  EXPECT_FALSE(verify(p, f, broken));
  broken = m;
  broken.of[p.results[0]] = m.storages.size();
  EXPECT_FALSE(verify(p, f, broken));
}

TEST(Lower, ArgumentsThatAreResultsAreCopied) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  l.output(v, {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  ASSERT_EQ(kinds_of(e.made.steps), std::vector{step_kind::map});
  EXPECT_EQ(e.made.steps[0].in[0], 0);
  EXPECT_EQ(e.made.steps[0].out, 1);
}

TEST(Lower, EmitsWhatTheRulesSay) {
  lowered l;
  residual_layer(l);
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  EXPECT_EQ(kinds_of(e.made.steps),
            (std::vector{step_kind::gemm, step_kind::map, step_kind::gemm, step_kind::move, step_kind::map}));
  const gemm_dims first = as_gemm(e.made.steps[0]);
  EXPECT_EQ(first.batch.rank, 0);
  EXPECT_EQ(first.k.rank, 1);
  EXPECT_EQ(e.made.dims[first.k[0]].name, "embed");
  // The product runs over what each device has of its result.
  EXPECT_EQ(e.made.steps[0].space, e.made.buffers[e.made.steps[0].out].where);
  EXPECT_EQ(e.made.steps[0].space.sharded().size(), 2);
  emitted broken = e;
  std::swap(broken.made.steps[0], broken.made.steps[1]);
  EXPECT_FALSE(verify(broken));
  broken = e;
  broken.made.steps[3].move = kind::all_gather;
  EXPECT_FALSE(verify(broken));
}

// A library computes alpha * a b + beta * c: what only scales a product and adds an array to it is no pass of its own.
TEST(Lower, ScalesProductsWhereTheyAreMade) {
  const auto kinds = [](auto&& record) {
    lowered l;
    const value a = l.input({{batch, x}, {embed, ""}}), b = l.input({{embed, ""}, {hidden, y}});
    const value c = l.input({{batch, x}, {hidden, y}});
    const value rate = l.input({});
    const value made = record(dot(a, b, embed), c, rate);
    l.output(made, {{batch, x}, {hidden, y}});
    l.choose_strategies();
    emitted e = l.emit_all();
    scale_products(e);
    EXPECT_TRUE(verify(e));
    EXPECT_TRUE(lower(l.g, l.chosen, l.at, l.rule).found.ok());
    return kinds_of(e.made.steps);
  };
  const std::vector one{step_kind::gemm}, two{step_kind::gemm, step_kind::map};
  EXPECT_EQ(kinds([](value p, value c, value rate) { return c - rate * p; }), one);
  EXPECT_EQ(kinds([](value p, value c, value rate) { return 0.5 * c - rate * (p + 0.1 * c); }), one);
  EXPECT_EQ(kinds([](value p, value, value rate) { return p / rate; }), one);
  EXPECT_EQ(kinds([](value p, value c, value) { return p * c; }), two);
  EXPECT_EQ(kinds([](value p, value c, value) { return c + p * p; }), two);
  EXPECT_EQ(kinds([](value p, value, value) { return p + 1; }), two);
  // The numbers together may leave the range of the type where the product by one after the other does not.
  EXPECT_EQ(kinds([](value p, value, value) { return p * 1e-5 * 1e-9; }), one);
  EXPECT_EQ(kinds([](value p, value, value) { return p * 1e-25 * 1e-25; }), two);
  EXPECT_EQ(kinds([](value p, value, value) { return p * 1e25 / 1e25; }), two);
  EXPECT_EQ(kinds([](value p, value, value rate) { return p * rate * rate; }), two);
  EXPECT_EQ(kinds([](value p, value c, value rate) { return (c / rate + p) * rate; }), two);
}

TEST(Lower, LookUpsThatAProductAloneReads) {
  const auto feeds = [](bool twice) {
    lowered l;
    const value x_of = l.input({{layer, ""}}), values = l.input({{batch, x}, {embed, ""}});
    const value rows = gather(x_of, layer, cast(l.input({{batch, x}, {embed, ""}}), element::i32));
    l.output(dot(values, rows, embed), {{batch, x}});
    if (twice) l.output(rows, {{batch, x}, {embed, ""}});
    l.choose_strategies();
    const program p = lower(l.g, l.chosen, l.at, l.rule);
    return p.steps[step_of(p.steps, step_kind::gather)].feeds_product;
  };
  EXPECT_TRUE(feeds(false));
  EXPECT_FALSE(feeds(true));
}

// Kernels know elementwise operations: a broadcast within an expression is the value itself.
TEST(Lower, BroadcastsWithinExpressionsAreTheValuesThemselves) {
  lowered l;
  const value a = l.input({{batch, x}}), b = l.input({{batch, x}, {embed, ""}});
  l.output(broadcast(a, batch, embed) * b + tanh(broadcast(a, batch, embed)), {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_EQ(kinds_of(e.made.steps), (std::vector{step_kind::map}));
  EXPECT_EQ(std::ranges::count(e.made.fused_ops, op::broadcast, &fused_op::code), 0);
}

TEST(Lower, StepsOfALoopAreBetweenItsMarks) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}}), w = l.input({{layer, ""}, {embed, ""}});
  l.output(scan(layer, v, w, [](const value& h, const value& row) { return tanh(h * row); }),
           {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const emitted e = l.emit_all();
  EXPECT_TRUE(verify(e));
  const std::size_t begin = step_of(e.made.steps, step_kind::loop_begin),
                    end = step_of(e.made.steps, step_kind::loop_end);
  ASSERT_LT(begin, end);
  for (std::size_t i = 0; i < e.made.steps.size(); ++i)
    EXPECT_EQ(e.made.steps[i].in_loop != 0, i >= begin && i <= end) << i;
}

/// Sums over x of two values, of which the second may depend on the first.
void two_sums(lowered& l, bool dependent) {
  const value v = l.input({{batch, x}, {embed, ""}});
  const value first = sum(v, batch), second = sum(dependent ? sin(v * first) : sin(v), batch);
  l.output(exp(first), {{embed, ""}});
  l.output(exp(second), {{embed, ""}});
  l.choose_strategies();
}
bool reduces(const step& s) { return s.kind == step_kind::move && s.move == kind::all_reduce; }
TEST(Lower, IndependentAllReducesAreCombined) {
  for (bool dependent : {false, true}) {
    lowered l;
    two_sums(l, dependent);
    emitted e = l.emit_all();
    indexed_vector<step>& steps = e.made.steps;
    ASSERT_EQ(std::ranges::count_if(steps, reduces), 2);
    // Each is emitted just before its first reader.
    const std::size_t first = static_cast<std::size_t>(std::ranges::find_if(steps, reduces) - steps.begin());
    ASSERT_FALSE(reduces(steps[first + 1]));
    const indexed_vector<step> before = steps;
    combine_all_reduces(steps, e.made.buffers, e.memory);
    EXPECT_TRUE(verify(e));
    const auto adjacent = std::ranges::adjacent_find(steps, [](const step& a, const step& b) {
      return reduces(a) && reduces(b);
    });
    EXPECT_EQ(adjacent != steps.end(), !dependent);
    EXPECT_EQ(kinds_of(steps) == kinds_of(before), dependent);
  }
}

TEST(Lower, ExchangesOverlapWithWorkThatDoesNotNeedThem) {
  for (bool work : {true, false}) {
    lowered l;
    const value v = exp(l.input({{batch, x}, {embed, ""}})), w = l.input({{embed, ""}, {hidden, ""}});
    // No halo, and no sum of what is only moved.
    const value turned = flip(v, batch), product = work ? dot(v, w, embed) : v, total = sum(turned * v, embed);
    l.output(work ? sum(product, hidden) + total : total, {{batch, x}});
    l.choose_strategies();
    emitted e = l.emit_all();
    indexed_vector<step>& steps = e.made.steps;
    overlap_exchanges(steps, e.made.buffers, e.made.maps, e.memory);
    EXPECT_TRUE(verify(e));
    const std::size_t exchange = step_of(steps, step_kind::exchange), wait = step_of(steps, step_kind::wait);
    ASSERT_NE(exchange, none);
    EXPECT_EQ(steps[exchange].in_flight, work);
    ASSERT_EQ(wait != none, work);
    if (!work) continue;
    EXPECT_EQ(steps[wait].begun, exchange);
    EXPECT_TRUE(std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(exchange),
                            steps.begin() + static_cast<std::ptrdiff_t>(wait), computes));
    // Waited for too late.
    std::swap(steps[wait], steps[wait + 1]);
    EXPECT_FALSE(verify(e));
  }
}

TEST(Lower, HalosTravelWhileTheirStencilComputes) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  l.output(roll(v, batch, 1) + roll(v, batch, -1), {{batch, x}, {embed, ""}});
  l.choose_strategies();
  emitted e = l.emit_all();
  indexed_vector<step>& steps = e.made.steps;
  overlap_exchanges(steps, e.made.buffers, e.made.maps, e.memory);
  EXPECT_TRUE(verify(e));
  EXPECT_EQ(kinds_of(steps), (std::vector{step_kind::exchange, step_kind::wait, step_kind::map}));
  EXPECT_TRUE(steps[0].in_flight);
}

/// The exchanges of a program by the kinds of its steps, where exchanges that share messages are one.
int exchanges_of(const std::vector<step>& steps) {
  return static_cast<int>(std::ranges::count_if(steps, [](const step& s) {
    return s.kind == step_kind::exchange && s.move != kind::none && !s.joined;
  }));
}
void combine_and_overlap(emitted& e) {
  combine_exchanges(e.made.steps, e.made.buffers, e.made.maps, e.memory);
  overlap_exchanges(e.made.steps, e.made.buffers, e.made.maps, e.memory);
}
value neighbours(const value& v, const dim_ref& d) { return shift(v, d, 1) + shift(v, d, -1); }

TEST(Lower, HalosOfIndependentFieldsShareMessages) {
  enum class case_of { independent, dependent, other_axes, read_whole };
  for (case_of c : {case_of::independent, case_of::dependent, case_of::other_axes, case_of::read_whole}) {
    lowered l;
    const value u = l.input({{batch, x}, {embed, y}}), v = l.input({{batch, x}, {embed, y}});
    const value first = neighbours(u, batch);
    const value second = c == case_of::dependent    ? neighbours(v * first, batch)
                         : c == case_of::other_axes ? neighbours(v, embed)
                         : c == case_of::read_whole ? flip(v, batch) * v
                                                    : neighbours(v, batch);
    l.output(first, {{batch, x}, {embed, y}});
    l.output(second, {{batch, x}, {embed, y}});
    l.choose_strategies();
    emitted e = l.emit_all();
    indexed_vector<step>& steps = e.made.steps;
    ASSERT_EQ(exchanges_of(steps), 2);
    combine_and_overlap(e);
    EXPECT_TRUE(verify(e));
    const bool shared_messages = c == case_of::independent || c == case_of::other_axes;
    ASSERT_EQ(exchanges_of(steps), shared_messages ? 1 : 2);
    if (!shared_messages) continue;
    // Both begin before anything is computed, and are waited for together.
    EXPECT_EQ(kinds_of(steps), (std::vector{step_kind::exchange, step_kind::exchange, step_kind::wait, step_kind::wait,
                                            step_kind::map, step_kind::map}));
    EXPECT_TRUE(steps[0].in_flight && steps[1].in_flight && !steps[0].joined && steps[1].joined);
    EXPECT_EQ(steps[2].begun, 0);
    EXPECT_EQ(steps[3].begun, 1);
    program p = allocate(std::move(e));
    EXPECT_TRUE(verify(p));
    // The bytes of both, and one message for each neighbour: along other axes these are others.
    const std::int64_t shared = messages(p, l.at), moved = bytes(p, l.at);
    p.steps[1].joined = false;
    EXPECT_EQ(messages(p, l.at), (c == case_of::independent ? 2 : 1) * shared);
    EXPECT_EQ(bytes(p, l.at), moved);
  }
}

// Where whole values are brought, only those that follow each other and travel while others compute, until the same
// place.
TEST(Lower, ExchangesOfWholeValuesShareMessagesForOneReader) {
  enum class case_of { one_reader, two_readers, no_work };
  for (case_of c : {case_of::one_reader, case_of::two_readers, case_of::no_work}) {
    lowered l;
    const value u = exp(l.input({{batch, x}, {embed, y}})), v = exp(l.input({{batch, x}, {embed, y}}));
    const value w = l.input({{embed, y}, {hidden, ""}});
    const value turned = flip(u, batch), other = flip(v, batch);
    const value product = c == case_of::no_work ? u : dot(u, w, embed);
    const value first = sum(turned * u + (c == case_of::two_readers ? u : other * v), embed);
    const value all = c == case_of::two_readers ? first + sum(other * v, embed) : first;
    l.output(c == case_of::no_work ? all : sum(product, hidden) + all, {{batch, x}});
    l.choose_strategies();
    emitted e = l.emit_all();
    ASSERT_EQ(exchanges_of(e.made.steps), 2);
    const std::size_t one = step_of(e.made.steps, step_kind::exchange);
    const bool adjacent = e.made.steps[one + 1].kind == step_kind::exchange;
    combine_and_overlap(e);
    EXPECT_TRUE(verify(e));
    EXPECT_EQ(exchanges_of(e.made.steps), c == case_of::one_reader ? 1 : 2) << adjacent;
    EXPECT_TRUE(verify(allocate(std::move(e))));
  }
}

// In a loop as outside, and not across its ends.
TEST(Lower, ExchangesShareMessagesWithinTheirLoop) {
  // Long, so that nothing else is cheaper than halos.
  static const dim_ref rows{"rows", 1 << 16};
  lowered l;
  const value u = l.input({{rows, x}, {embed, ""}}), v = l.input({{rows, x}, {embed, ""}});
  const auto both = repeat_times(4, std::pair(u, neighbours(v, rows)), [](const std::pair<value, value>& now) {
    return std::pair(neighbours(now.first, rows), neighbours(now.second, rows) * now.first);
  });
  l.output(neighbours(both.first, rows) + both.second, {{rows, x}, {embed, ""}});
  l.choose_strategies();
  emitted e = l.emit_all();
  ASSERT_EQ(exchanges_of(e.made.steps), 4);
  combine_and_overlap(e);
  EXPECT_TRUE(verify(e));
  EXPECT_EQ(exchanges_of(e.made.steps), 3);
  for (const step& s : e.made.steps) EXPECT_TRUE(!s.joined || s.in_loop == 1);
  EXPECT_TRUE(verify(allocate(std::move(e))));
}

/// A product whose right operand is gathered, or whose result is reduced and scattered, and something beside it.
emitted emit_product(lowered& l, bool gathers) {
  const value v = l.input({{batch, x}, {embed, ""}});
  if (gathers) {
    const value w = l.input({{embed, x}, {hidden, ""}});
    l.output(dot(v, sin(w), embed), {{batch, x}, {hidden, ""}});
  } else {
    const value w = l.input({{batch, x}, {hidden, ""}});
    l.output(sin(dot(v, w, batch)), {{embed, x}, {hidden, ""}});
  }
  l.output(exp(v), {{batch, x}, {embed, ""}});
  l.choose_strategies();
  return l.emit_all();
}
TEST(Lower, CollectivesGoOnWhileTheirProductComputes) {
  for (bool gathers : {true, false})
    for (bool pays : {true, false}) {
      lowered l;
      emitted e = emit_product(l, gathers);
      indexed_vector<step>& steps = e.made.steps;
      const cost before{bytes(e.made, l.at), messages(e.made, l.at)};
      // Where messages cost nothing it pays to hide them; where they cost more than what they bring it does not.
      overlap_products(e, l.at, policy::time(pays ? 0 : 1));
      EXPECT_TRUE(verify(e));
      const std::size_t product = step_of(steps, step_kind::gemm);
      ASSERT_NE(product, none);
      EXPECT_EQ(steps[product].pieces != 0, pays);
      EXPECT_EQ((cost{bytes(e.made, l.at), messages(e.made, l.at)}), before);
      if (!pays) continue;
      const std::size_t move = gathers ? product - 1 : product + 1;
      EXPECT_EQ(steps[move].move, gathers ? kind::all_gather : kind::reduce_scatter);
      EXPECT_EQ(steps[move].pieces, steps[product].pieces);
      // Not both, or in other numbers of pieces, or not side by side.
      emitted broken = e;
      broken.made.steps[move].pieces = 0;
      EXPECT_FALSE(verify(broken));
      broken.made.steps[move].pieces = narrowed(steps[product].pieces + 1);
      EXPECT_FALSE(verify(broken));
      broken = e;
      broken.made.steps.insert(broken.made.steps.begin() + static_cast<std::ptrdiff_t>(gathers ? product : move),
                               steps[step_of(steps, step_kind::map)]);
      EXPECT_FALSE(verify(broken));
    }
}

/// Sums over x of three products that are made one after the other, each read behind all of them.
emitted emit_gradients(lowered& l) {
  const value v = l.input({{batch, x}, {embed, ""}});
  value sums[3];
  for (value& s : sums) s = dot(v, l.input({{batch, x}, {hidden, y}}), batch);
  for (const value& s : sums) l.output(exp(s), {{embed, ""}, {hidden, y}});
  l.choose_strategies();
  emitted e = l.emit_all();
  combine_all_reduces(e.made.steps, e.made.buffers, e.memory);
  return e;
}
/// The steps of a program in short: products, moves, those that begin, waits with the number of the step, others.
std::string short_steps(const indexed_vector<step>& steps) {
  std::string text;
  for (const step& s : steps)
    text += s.kind == step_kind::gemm   ? "p"
            : s.kind == step_kind::move ? (s.in_flight ? "b" : "m")
            : s.kind == step_kind::wait ? "w" + std::to_string(s.begun)
                                        : ".";
  return text;
}
TEST(Lower, SumsTravelWhileProductsAreComputed) {
  const auto steps_for = [](double latency, double bandwidth) {
    lowered l;
    emitted e = emit_gradients(l);
    EXPECT_EQ(short_steps(e.made.steps), "pppmmm...");
    const cost before{bytes(e.made, l.at), messages(e.made, l.at)};
    overlap_moves(e, l.at, policy::time(latency, bandwidth, 1e11));
    EXPECT_TRUE(verify(e));
    EXPECT_EQ((cost{bytes(e.made, l.at), messages(e.made, l.at)}), before);
    const std::string text = short_steps(e.made.steps);
    // Each wait is needed, is in its place, and is of what began.
    for (std::size_t i = 0; i < e.made.steps.size(); ++i) {
      if (e.made.steps[i].kind != step_kind::wait) continue;
      emitted broken = e;
      broken.made.steps.erase(broken.made.steps.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(verify(broken));
      broken = e;
      broken.made.steps[i].begun = narrowed(broken.made.steps[i].begun + 1);
      EXPECT_FALSE(verify(broken));
      broken = e;
      std::swap(broken.made.steps[i], broken.made.steps.back());
      EXPECT_FALSE(verify(broken));
    }
    // The slots of the finished program hold what is under way.
    EXPECT_TRUE(verify(allocate(std::move(e))));
    return text;
  };
  // As many groups as sums, where messages cost nothing; each is waited for where it is needed.
  EXPECT_EQ(steps_for(0, 1e10), "pbpbpbw1.w3.w5.");
  // Messages that cost something: two sums in one.
  EXPECT_EQ(steps_for(2.5e-7, 1e10), "ppbbpbw2.w3.w5.");
  // Where they cost more than what they bring, all stays as it was.
  EXPECT_EQ(steps_for(1, 1e10), "pppmmm...");
  // A fast network: over after the next product, so that nothing is held longer.
  EXPECT_EQ(steps_for(0, 1e13), "pbpbw1pbw3..w6.");
}

TEST(Lower, WaitsDoNotComeBetweenAProductAndTheMoveOfItsPieces) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}});
  const value whole = dot(v, l.input({{batch, x}, {hidden, y}}), batch);
  l.output(sin(dot(v, l.input({{batch, x}, {layer, y}}), batch)), {{embed, x}, {layer, y}});
  l.output(exp(whole), {{embed, ""}, {hidden, y}});
  l.choose_strategies();
  emitted e = l.emit_all();
  combine_all_reduces(e.made.steps, e.made.buffers, e.memory);
  overlap_products(e, l.at, policy::time(0));
  EXPECT_EQ(short_steps(e.made.steps), "ppm.m.");
  ASSERT_NE(e.made.steps[1].pieces, 0);
  // The sum would be over after the second product.
  overlap_moves(e, l.at, policy::time(0, 1e13));
  EXPECT_EQ(short_steps(e.made.steps), "pbpm.w1.");
  EXPECT_TRUE(verify(e));
}

TEST(Lower, MovesBeginLateWhereTheirResultTakesMemory) {
  const auto steps_for = [](double bandwidth, bool pays) {
    lowered l;
    const value v = l.input({{batch, x}, {embed, ""}}), rows = l.input({{batch, x}, {hidden, y}});
    for (int products = 0; products < 3; ++products)
      l.output(dot(v, l.input({{embed, ""}, {hidden, y}}), embed), {{batch, x}, {hidden, y}});
    // No product reads it, so that it does not go on in pieces of one.
    l.output(rows, {{batch, ""}, {hidden, y}});
    l.choose_strategies();
    emitted e = l.emit_all();
    overlap_moves(e, l.at, policy::time(pays ? 0 : 1, bandwidth, 1e11));
    EXPECT_TRUE(verify(e));
    return short_steps(e.made.steps);
  };
  // It begins before the last product if that hides it with time to spare, and before all of them if not.
  EXPECT_EQ(steps_for(1e10, false).find('b'), std::string::npos);
  const std::string slow = steps_for(1e10, true), fast = steps_for(1e13, true);
  EXPECT_LT(slow.find('b'), slow.find('p')) << slow;
  EXPECT_GT(fast.find('b'), fast.find('p')) << fast;
}

TEST(Lower, PiecesFollowFromThePrice) {
  const policy rule = policy::time(1e-6, 1e9, 1e9);
  const auto pieces = [&](std::int64_t bytes, std::int64_t flops, std::int64_t devices) {
    return int{choose_pieces({{bytes, 1}, flops, devices}, rule).pieces};
  };
  // At equal times the last piece of each device is what is not hidden.
  EXPECT_EQ(pieces(1'000'000, 1'000'000, 2), 8);
  const overlap_choice even = choose_pieces({{1'000'000, 1}, 1'000'000, 2}, rule);
  EXPECT_NEAR(even.saved, 1e-3 * (1 - 1.0 / 16), 5e-5);
  // Many devices have small blocks already.
  EXPECT_LT(pieces(1'000'000, 1'000'000, 64), 4);
  // Too little to compute, too little to move, nobody to wait for.
  EXPECT_EQ(pieces(1'000'000, 1, 2), 0);
  EXPECT_EQ(pieces(1, 1'000'000, 2), 0);
  EXPECT_EQ(pieces(1'000'000, 1'000'000, 1), 0);
  // A policy that counts bytes takes the times of the model.
  EXPECT_EQ(int{choose_pieces({{10'000'000, 1}, 100'000'000, 2}, policy::bytes_first(1)).pieces}, 8);
}

TEST(Lower, UpdatesWriteWhatChangesAlone) {
  static constexpr cleave::dim<"one", 1> one;
  for (bool in_loop : {false, true})
    for (bool read_later : {false, true}) {
      lowered l;
      const value cache = l.input({{batch, ""}, {embed, ""}}), line = l.input({{one, ""}, {embed, ""}});
      const value place = l.in.input(element::i32, layout_named({}));
      const auto advance = [&](const value& old, const value& at) {
        const value next = dynamic_update(old, batch, line, one, at);
        return read_later ? next * sum(old, batch) : next;
      };
      if (!in_loop) {
        l.output(advance(cache, place), {{batch, ""}, {embed, ""}});
      } else {
        const auto both = repeat_times(4, std::pair(cache, place), [&](const std::pair<value, value>& now) {
          return std::pair(advance(now.first, now.second), now.second + 1);
        });
        l.output(both.first, {{batch, ""}, {embed, ""}});
      }
      l.choose_strategies();
      const program p = allocate(l.emit_all());
      ASSERT_TRUE(verify(p));
      int whole = 0, updates = 0;
      for (const step& s : p.steps) {
        if (!writes(s) || s.in_loop != (in_loop ? 1 : 0)) continue;
        updates += s.keeps ? 1 : 0;
        whole += !s.keeps && p.buffers[s.out].type.rank == 2 ? 1 : 0;
      }
      EXPECT_EQ(updates, 1);
      // Beside it: the copy, which is nothing where the result is the argument; in the loop none.
      if (!read_later) {
        EXPECT_EQ(whole, in_loop ? 0 : 1);
        // Two numbers at most, of a cache line each.
        EXPECT_LE(workspace(p, l.at), 2 * 64);
      } else {
        EXPECT_GT(whole, in_loop ? 1 : 0);
      }
      // An update of what was never written.
      program broken = p;
      broken.steps.remove_if([&](const step& s) { return s.kind == step_kind::map && s.ops == 1; });
      if (!read_later) {
        EXPECT_FALSE(verify(broken));
      }
    }
}

TEST(Lower, MemoryIsSharedByValuesOfOtherTimes) {
  lowered l;
  value v = l.input({{batch, x}, {embed, ""}});
  const value up = l.input({{embed, ""}, {hidden, ""}}), down = l.input({{hidden, ""}, {embed, ""}});
  for (int i = 0; i < 6; ++i) v = dot(dot(v, up, embed), down, hidden);
  l.output(v, {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const program p = allocate(l.emit_all());
  EXPECT_TRUE(verify(p));
  // Eleven products in workspace, of which one is read while the next is written.
  EXPECT_GE(std::ranges::count(p.buffers, role::workspace, &buffer::role), 11);
  EXPECT_EQ(p.slots, 2);
  // Everything in one slot: a product would overwrite what it reads.
  program broken = p;
  for (buffer& b : broken.buffers)
    if (b.role == role::workspace) b.index = 0;
  EXPECT_FALSE(verify(broken));
}

TEST(Lower, WhatALoopReadsInEveryIterationKeepsItsMemory) {
  lowered l;
  const value v = l.input({{batch, x}, {embed, ""}}), w = l.input({{layer, ""}, {embed, ""}});
  const value kept = dot(v, l.input({{embed, ""}, {hidden, ""}}), embed);
  l.output(scan(layer, v, w,
                [&](const value& h, const value& row) { return tanh(h * row) * sum(h * sum(kept, hidden), embed); }),
           {{batch, x}, {embed, ""}});
  l.choose_strategies();
  const emitted e = l.emit_all();
  const std::vector<lifetime> lives = lifetimes_of(e);
  const std::size_t begin = step_of(e.made.steps, step_kind::loop_begin),
                    end = step_of(e.made.steps, step_kind::loop_end);
  for (std::size_t i = begin; i < end; ++i)
    for (std::uint16_t b : e.made.steps[i].in) {
      const lifetime& life = lives[e.memory[b]];
      if (life.first_written < begin) {
        EXPECT_GE(life.last_read, end);
      }
    }
  EXPECT_TRUE(verify(allocate(emitted(e))));
}

} // namespace CLEAVE_SOURCE
