// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans that are made at run time, and their time on a machine, beside numbers that are written out here and beside
// plans that the compiler makes.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/pipeline.hpp>
#include <cleave/study/search.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"layer", 6> layer;

template <class A, class B>
struct two_products {
  A up;
  B down;
};
template <template <class, auto> class Tensor>
struct weights_in {
  two_products<Tensor<float, mesh(embed, hidden / model)>, Tensor<float, mesh(hidden / model, embed)>> first;
  std::array<Tensor<float, mesh(embed)>, 2> biases;
};
using Weights = weights_in<cleave::abstract>;
using X = cleave::abstract<float, mesh(batch / data, embed)>;
using Up = cleave::abstract<float, mesh(embed, hidden / model)>;
using Down = cleave::abstract<float, mesh(hidden / model, embed)>;

constexpr cleave::function of_fields([](const auto& w, auto x) {
  return dot(relu(dot(x + w.biases[0], w.first.up, embed)), w.first.down, hidden) + w.biases[1];
});
constexpr cleave::function product([](auto x, auto up) { return dot(x, up, embed); });
constexpr cleave::function mlp([](auto x, auto up, auto down) { return dot(dot(x, up, embed), down, hidden); });

/// Rates at which the numbers below are round.
constexpr cleave::machine simple = [] {
  cleave::machine m;
  m.flops_of_4 = 1e9;
  m.efficiency = 1;
  m.memory_bandwidth = 1e15;
  m.memory_efficiency = 1;
  m.every_axis = {0, 1e6};
  return m;
}();

template <class F>
std::string said(F&& f) {
  try {
    f();
  } catch (const cleave::error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(study, names_the_fields_of_aggregates) {
  const auto s = cleave::study::of<X(Weights, X)>(of_fields, {"weights"});
  EXPECT_EQ(s.arguments(), (std::vector<std::string>{"weights.first.up", "weights.first.down", "weights.biases[0]",
                                                     "weights.biases[1]", "arg 1"}));
  EXPECT_EQ(s.results(), (std::vector<std::string>{"result"}));
  const std::string passes = s.plan({batch = 64, embed = 32, hidden = 128}).explain_passes();
  EXPECT_NE(passes.find("weights.first.down"), passes.npos) << passes;
  EXPECT_NE(passes.find("arg 1, weights.biases[0]"), passes.npos) << passes;
}

TEST(study, plans_as_the_compiler_does) {
  constexpr auto compiled = cleave::plan<X(X, Up, Down)>(mlp);
  constexpr std::int64_t bytes = compiled.bytes({batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  const auto p = cleave::study::of<X(X, Up, Down)>(mlp).plan(
      {batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  EXPECT_EQ(p.bytes(), bytes);
  EXPECT_EQ(p.collectives(), compiled.collectives());
  EXPECT_EQ(p.count(cleave::kind::all_reduce), 1);
  // The same layouts as data: nothing travels if the batch takes both axes.
  auto s = cleave::study::of<X(X, Up, Down)>(mlp, {"x", "up", "down"});
  s.lay_out("x", cleave::layout_table("batch / data / model"))
      .lay_out("result", cleave::layout_table("batch / data / model"));
  s.lay_out("*", cleave::layout_table("batch / data / model"));
  EXPECT_EQ(s.layout_of("up"), "f32[embed, hidden]");
  EXPECT_EQ(s.plan({batch = 64, embed = 32, hidden = 128, data = 2, model = 4}).collectives(), 0);
}

TEST(study, prints_what_to_assert) {
  const auto p = cleave::study::of<X(X, Up, Down)>(mlp).plan(
      {batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  EXPECT_EQ(p.asserts("compiled"),
            "static_assert(compiled.collectives() == 1);\n"
            "static_assert(compiled.count(cleave::kind::all_reduce) == 1);\n"
            "static_assert(compiled.bytes({batch = 64, embed = 32, hidden = 128, data = 2, model = 4}) == 6144);\n");
  constexpr auto compiled = cleave::plan<X(X, Up, Down)>(mlp);
  static_assert(compiled.collectives() == 1);
  static_assert(compiled.count(cleave::kind::all_reduce) == 1);
  static_assert(compiled.bytes({batch = 64, embed = 32, hidden = 128, data = 2, model = 4}) == 6144);
}

TEST(study, rules_are_data_and_text_and_types) {
  const cleave::layout_table rules("hidden / model , batch/data/model");
  EXPECT_EQ(rules.text(), "hidden / model, batch / data / model");
  EXPECT_EQ(rules.cpp(), "cleave::nn::layout_rules{mesh, hidden / model, batch / data / model}");
  EXPECT_EQ(cleave::layout_table(cleave::nn::layout_rules{mesh, hidden / model, batch / data / model}), rules);
  EXPECT_EQ(cleave::layout_table("").text(), "");
  // The first rule gets an axis that two dims of a tensor ask for.
  auto s = cleave::study::of<X(X, Up, Down)>(mlp, {"x", "up", "down"});
  s.lay_out("up", cleave::layout_table("hidden / model, embed / model / data"));
  EXPECT_EQ(s.layout_of("up"), "f32[embed/data, hidden/model]");
}

TEST(study, says_what_is_wrong) {
  auto s = cleave::study::of<X(X, Up, Down)>(mlp, {"x", "up", "down"});
  EXPECT_EQ(said([] { cleave::layout_table("hidden / "); }),
            "cleave: layout rules are a list such as heads / model, batch / data, got 'hidden / '");
  EXPECT_EQ(said([] { cleave::layout_table("a / x, a / y"); }), "cleave: dim 'a' has two layout rules");
  EXPECT_EQ(said([&] { s.lay_out("up", cleave::layout_table("hidden / pipe")); }),
            "cleave: the layout rule of dim 'hidden' names axis 'pipe', which the mesh lacks");
  EXPECT_EQ(said([&] { s.lay_out("up", cleave::layout_table("heads / model")); }),
            "cleave: a layout rule names dim 'heads', which the function lacks");
  EXPECT_EQ(said([&] { s.lay_out("sideways", cleave::layout_table("hidden / model")); }),
            "cleave: no argument and no result has a name like 'sideways'");
  EXPECT_NE(said([&] { static_cast<void>(s.plan({cleave::named_size{"pipe", 2}})); }).find("'pipe'"),
            std::string::npos);
  const auto bad = [] { static_cast<void>(cleave::study::of<X(X, Down)>(product)); };
  EXPECT_NE(said(bad).find("dim 'embed'"), std::string::npos) << said(bad);
}

TEST(study, times_a_product_and_its_collective) {
  constexpr auto p = cleave::plan<X(X, Up, Down)>(mlp);
  // 64 x 32 x 128 multiply-adds twice over 8 devices; then an all-reduce of 32 x 32 floats over 4 of them.
  constexpr auto t = cleave::predict(p, simple, {batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  EXPECT_DOUBLE_EQ(t.flops, 2. * 2 * 64 * 32 * 128 / 8);
  EXPECT_DOUBLE_EQ(t.products, t.flops / 1e9);
  EXPECT_DOUBLE_EQ(t.network, 2 * 3 * 32 * 32 * 4 / 4 / 1e6);
  EXPECT_NEAR(t.seconds, t.products + t.network, 1e-9);
  EXPECT_NEAR(t.utilization(), t.products / t.seconds, 1e-12);
  // Half of the rate if the least extent on a device is as wide as the half width.
  cleave::machine wide = simple;
  wide.half_width = 32;
  EXPECT_DOUBLE_EQ(cleave::predict(p, wide, {batch = 64, embed = 32, hidden = 128, data = 2, model = 4}).products,
                   2 * t.products);
  // A batch of products may have a half width of its own.
  wide.half_width_of_batches = 96;
  EXPECT_DOUBLE_EQ(cleave::predict(p, wide, {batch = 64, embed = 32, hidden = 128, data = 2, model = 4}).products,
                   2 * t.products);
  const auto of_each = cleave::study::of<cleave::abstract<float, mesh(layer, batch, hidden)>(
      cleave::abstract<float, mesh(layer, batch, embed)>, cleave::abstract<float, mesh(layer, embed, hidden)>)>(
      cleave::function([](auto x, auto w) { return dot(x, w, embed); }));
  const auto six = of_each.plan({batch = 64, embed = 32, hidden = 128, data = 1, model = 1});
  EXPECT_DOUBLE_EQ(six.predict(wide).products, 4 * six.predict(simple).products);
}

TEST(study, times_links_of_every_shape) {
  using cleave::kind;
  using cleave::wiring;
  using cleave::detail::seconds_along;
  const cleave::link plain{1e-6, 1e9}, ring{0, 1e9, wiring::ring}, torus{0, 1e9, wiring::torus, 2};
  EXPECT_DOUBLE_EQ(seconds_along(plain, kind::all_gather, 1e9, 3, 8), 1 + 3e-6);
  EXPECT_DOUBLE_EQ(seconds_along(plain, kind::all_to_all, 1e9, 7, 8),
                   1 + 6e-6); // not more messages than a tree has, twice
  EXPECT_DOUBLE_EQ(seconds_along(ring, kind::all_gather, 1e9, 3, 16), 1);
  EXPECT_DOUBLE_EQ(seconds_along(ring, kind::all_to_all, 1e9, 15, 16), 4);
  EXPECT_NEAR(seconds_along(torus, kind::all_to_all, 1e9, 255, 256), 8, 1e-9); // two rings of 16
  EXPECT_NEAR(seconds_along(torus, kind::all_to_all, 1e9, 1, 1024) /
                  seconds_along(torus, kind::all_to_all, 1e9, 1, 256),
              2,
              1e-9); // grows with the root of the devices
  // 32 devices, 8 of a node: the last stage of a gather is within the node, and each device fetches an 8th from others.
  const cleave::link nodes = cleave::link{0, 1e9}.within(8, 0, 1e8);
  const double whole = 1e9 * 32 / 31;
  EXPECT_NEAR(seconds_along(nodes, kind::all_gather, 1e9, 5, 32), whole * 3 / 4 / 8 / 1e8 + whole * 7 / 8 / 1e9, 1e-9);
  EXPECT_NEAR(seconds_along(nodes, kind::all_gather, 1e9, 3, 8), 1, 1e-9);
  EXPECT_NEAR(seconds_along(nodes, kind::exchange, 1e9, 1, 32), 10, 1e-9);
  EXPECT_NEAR(seconds_along(nodes, kind::all_to_all, 1e9, 31, 32), 24. / 31 / 0.1 + 7. / 31, 1e-9);
}

TEST(study, times_loops) {
  constexpr cleave::function once([](auto x, auto w) { return dot(x, w, embed); });
  constexpr cleave::function six([](auto x, auto w) {
    return cleave::repeat_times(6, x, [&](auto v) { return dot(dot(v, w, embed), w, hidden); });
  });
  using W = cleave::abstract<float, mesh(embed, hidden)>;
  using Rows = cleave::abstract<float, mesh(batch / data, embed)>;
  const auto seconds = [](const auto& f, auto signature) {
    using S = typename decltype(signature)::type;
    return cleave::study::of<S>(f).plan({batch = 64, embed = 32, hidden = 128, data = 2}).predict(simple).products;
  };
  using Out = cleave::abstract<float, mesh(batch / data, hidden)>;
  EXPECT_NEAR(seconds(six, std::type_identity<Rows(Rows, W)>{}), 12 * seconds(once, std::type_identity<Out(Rows, W)>{}),
              1e-12);
}

inline constexpr cleave::dim<"next"> next_embed;
inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"microbatch"> microbatch;
constexpr auto square_layer = [](const auto& x, const auto& w) {
  return tanh(rename(dot(x, w, embed), next_embed, embed));
};
template <bool Again>
constexpr cleave::function loss_of_layers([](const auto& w, const auto& x) {
  if constexpr (Again) return sum(scan(layer, x, w, remat(cleave::function(square_layer))));
  else return sum(scan(layer, x, w, square_layer));
});
using Layers = cleave::abstract<float, mesh(layer, embed, next_embed)>;

TEST(study, tells_the_model_from_what_is_computed_again) {
  constexpr double one = 2. * 64 * 32 * 32 / 8; // a product, on one of 8 devices
  const auto work = [&](const auto& f) {
    const auto s = cleave::study::of<Layers(Layers, X)>(grad(f));
    const auto p = s.plan({batch = 64, embed = 32, next_embed = 32, data = 8, model = 1});
    const cleave::products_by_use use = p.work(simple);
    EXPECT_DOUBLE_EQ(use.idle.flops, 0);
    EXPECT_DOUBLE_EQ(use.model.flops + use.recomputed.flops, p.predict(simple).flops);
    EXPECT_DOUBLE_EQ(use.model.seconds, use.model.flops / 1e9);
    return use;
  };
  // Forward, and for the gradient of each operand.
  EXPECT_DOUBLE_EQ(work(loss_of_layers<false>).model.flops, 6 * 3 * one);
  EXPECT_DOUBLE_EQ(work(loss_of_layers<false>).recomputed.flops, 0);
  EXPECT_DOUBLE_EQ(work(loss_of_layers<true>).model.flops, 6 * 3 * one);
  EXPECT_DOUBLE_EQ(work(loss_of_layers<true>).recomputed.flops, 6 * one);
}
TEST(study, tells_the_model_from_idle_stages_and_repeated_work) {
  using Batches = cleave::abstract<float, mesh(microbatch, batch, embed)>;
  using Stages = cleave::abstract<float, mesh(stage / model, embed, next_embed)>;
  constexpr cleave::function staged([](const auto& x, const auto& w) {
    const auto pin = [](const auto& v) { return constrain(v, cleave::nn::layout_rules{mesh, stage / model}); };
    return cleave::nn::pipeline(x, w, {stage, microbatch}, square_layer, pin);
  });
  const auto p = cleave::study::of<Batches(Batches, Stages)>(staged).plan(
      {microbatch = 5, stage = 4, batch = 64, embed = 32, next_embed = 32, data = 2, model = 4});
  // 5 microbatches, 4 stages, in 8 ticks, on 4 devices, which 2 sets of devices repeat.
  constexpr double one = 2. * 64 * 32 * 32;
  const cleave::products_by_use use = p.work(simple);
  EXPECT_DOUBLE_EQ(use.model.flops, 5 * 4 * one / 8);
  EXPECT_DOUBLE_EQ(use.idle.flops, 3 * 4 * one / 8);
  EXPECT_DOUBLE_EQ(p.predict(simple).flops, 8 * one);
  EXPECT_NE(p.report(simple).find("on several devices"), std::string::npos);
}

TEST(study, draws_a_timeline) {
  const auto p = cleave::study::of<X(X, Up, Down)>(mlp).plan(
      {batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  const auto t = p.predict(simple);
  const auto steps = cleave::timeline(p.view(), p.planned_for(), simple);
  double compute = 0, network = 0, exposed = 0, end = 0;
  for (const cleave::timed_step& s : steps) {
    (s.network ? network : compute) += s.times * (s.end - s.begin);
    exposed += s.exposed;
    end = std::max(end, s.end);
    EXPECT_GE(s.end, s.begin);
  }
  EXPECT_NEAR(compute, t.products + t.passes, 1e-12);
  EXPECT_NEAR(network, t.network, 1e-12);
  EXPECT_NEAR(exposed, t.exposed, 1e-12);
  EXPECT_NEAR(end, t.seconds, 1e-12);
  const std::string text = p.timeline(simple);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), steps.size() + 1);
  EXPECT_NE(text.find(",network,all_reduce,\"model\","), text.npos) << text;
}

// A host that is slower than the device decides the time, in loops too.
TEST(study, waits_for_the_host) {
  using W = cleave::abstract<float, mesh(embed / model, hidden)>;
  constexpr cleave::function six([](auto x, auto w) {
    return cleave::repeat_times(6, x, [&](auto v) { return dot(dot(v, w, embed), w, hidden); });
  });
  const auto p = cleave::study::of<X(X, W)>(six).plan({batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  cleave::machine host = simple;
  host.issue = 1;
  double times = 0;
  std::set<std::size_t> seen;
  for (const cleave::timed_step& t : cleave::timeline(p.view(), p.planned_for(), simple))
    if (seen.insert(t.step).second) times += t.times;
  EXPECT_GT(times, 12);
  EXPECT_NEAR(p.predict(host).seconds, times, 1e-2);
  EXPECT_EQ(p.predict(host).products, p.predict(simple).products);
  host.issue = 1e-12;
  EXPECT_EQ(p.predict(host).seconds, p.predict(simple).seconds);
}

// A kernel of fused attention reads three operands and writes one result; the other values are numbers for each row.
TEST(study, keeps_the_scores_of_fused_attention_on_the_chip) {
  constexpr static cleave::dim<"position"> position;
  constexpr static cleave::dim<"source"> source;
  using Q = cleave::abstract<float, mesh(position, embed)>;
  using K = cleave::abstract<float, mesh(source, embed)>;
  constexpr cleave::function attention([](auto q, auto k, auto v) {
    const auto scores = dot(q, k, embed), weights = exp(scores - max(scores, source));
    return dot(weights / sum(weights, source), v, source);
  });
  const auto s = cleave::study::of<Q(Q, K, K)>(attention);
  cleave::machine fused = simple;
  fused.fused_features = 256;
  const double row = 4096 * 4, score = 4096.0 * 4096 * 4;
  const auto few = s.plan({embed = 256, position = 4096, source = 4096, data = 1, model = 1});
  EXPECT_GT(few.predict(simple).memory_bytes, 4 * score);
  EXPECT_GE(few.predict(fused).memory_bytes, 4 * 256 * row);
  EXPECT_LE(few.predict(fused).memory_bytes, 4 * 256 * row + 6 * row);
  EXPECT_EQ(few.predict(fused).flops, few.predict(simple).flops);
  const auto many = s.plan({embed = 257, position = 4096, source = 4096, data = 1, model = 1});
  EXPECT_EQ(many.predict(fused).memory_bytes, many.predict(simple).memory_bytes);
  // Both products are those of the kernel; of 257 features none is.
  fused.half_width = fused.launch = 0;
  fused.memory_bandwidth = 1e30;
  fused.fused_efficiency = fused.efficiency;
  const double few_seconds = few.predict(fused).products, many_seconds = many.predict(fused).products;
  fused.fused_efficiency /= 2;
  EXPECT_NEAR(few.predict(fused).products, 2 * few_seconds, 1e-9 * few_seconds);
  EXPECT_EQ(many.predict(fused).products, many_seconds);

  // A kernel of the softmax alone: products write scores and read their weights, and so do those of the gradient.
  constexpr cleave::function loss([](auto q, auto k, auto v) {
    const auto scores = dot(q, k, embed), weights = exp(scores - max(scores, source));
    return sum(exp(dot(weights / sum(weights, source), v, source)));
  });
  const auto slopes = cleave::study::of<Q(Q, K, K)>(cleave::grad(loss))
                          .plan({embed = 256, position = 4096, source = 4096, data = 1, model = 1});
  cleave::machine softmax = simple;
  softmax.fused_features = 256;
  softmax.fused_products = false;
  EXPECT_GE(slopes.predict(softmax).memory_bytes, 4 * 256 * row + 6 * score);
  EXPECT_LE(slopes.predict(softmax).memory_bytes, slopes.predict(simple).memory_bytes - score);
  EXPECT_EQ(slopes.predict(softmax).products, slopes.predict(simple).products);
}

// Gradients of one round of a table are added to this round alone, by a pass or by the product.
TEST(study, adds_to_sums_in_place) {
  constexpr static cleave::dim<"round"> round;
  using Table = cleave::abstract<float, mesh(round, embed, next_embed)>;
  using Rounds = cleave::abstract<int, mesh(layer)>;
  constexpr cleave::function loss([](auto w, auto x, auto rounds) {
    return sum(cleave::scan(layer, x, rounds, [&](const auto& v, const auto& r) {
      return tanh(rename(dot(v, gather(w, round, r), embed), next_embed, embed));
    }));
  });
  using Rows = cleave::abstract<float, mesh(batch, embed)>;
  const auto p = cleave::study::of<Table(Table, Rows, Rounds)>(cleave::grad(loss))
                     .plan({batch = 64, embed = 32, next_embed = 32, round = 8, data = 1, model = 1});
  cleave::machine entries = simple, products = simple;
  entries.sums = cleave::sums_in_loops::in_entries;
  products.sums = cleave::sums_in_loops::in_products;
  const double entry = 32 * 32 * 4, index = 4, table = 8 * entry, all = p.predict(simple).memory_bytes;
  EXPECT_NEAR(p.predict(entries).memory_bytes, all - 6 * (4 * table + 2 * index), 1);
  EXPECT_NEAR(p.predict(products).memory_bytes, all - 6 * (4 * table + 3 * entry + 2 * index), 1);
  EXPECT_EQ(p.predict(products).products, p.predict(simple).products);
}

TEST(study, explains_with_seconds_and_sums_of_loops) {
  using W = cleave::abstract<float, mesh(embed / model, hidden)>;
  constexpr cleave::function six([](auto x, auto w) {
    return cleave::repeat_times(6, x, [&](auto v) { return dot(dot(v, w, embed), w, hidden); });
  });
  constexpr int line = __LINE__ - 2;
  const auto p = cleave::study::of<X(X, W)>(six).plan({batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  // The carried value takes the layout in which the second product leaves it: w is gathered once before the loop, and
  // the result once after it, instead of the carried value in each iteration.
  EXPECT_EQ(p.bytes(), 4 * (32 * 128 * 3 / 4 + 64 / 2 * 32 * 3 / 4));
  const auto t = p.predict(simple);
  const std::string text = p.explain(simple);
  // The sums are those of the prediction, and the shares of all loops are the whole call.
  double compute = 0, network = 0, exposed = 0, shares = 0;
  int loops = 0;
  for (std::size_t at = text.find("outside of loops"); at < text.find("total "); at = text.find('\n', at) + 1) {
    double numbers[4];
    const std::size_t begin = text.compare(at, 4, "loop") == 0 ? text.find("iterations", at) + 10 : at + 16;
    ASSERT_EQ(std::sscanf(text.c_str() + begin, "%lf %lf %lf %lf", numbers, numbers + 1, numbers + 2, numbers + 3), 4)
        << text;
    compute += numbers[0], network += numbers[1], exposed += numbers[2], shares += numbers[3];
    ++loops;
  }
  EXPECT_EQ(loops, 2);
  EXPECT_NEAR(compute, t.products + t.passes, 1e-3 * t.seconds);
  EXPECT_NEAR(network, t.network, 1e-3 * t.seconds);
  EXPECT_NEAR(exposed, t.exposed, 1e-3 * t.seconds);
  EXPECT_NEAR(shares, 100, 0.2);
  // The loop has no dim of the program, and so is that of a line.
  EXPECT_NE(text.find("loop 1 of line " + std::to_string(line) + ", 6 iterations"), text.npos) << text;
  EXPECT_NE(text.find("all_gather   model"), text.npos) << text;
  // With these sizes expected, the compiler plans the same.
  constexpr auto compiled = cleave::plan<X(X, W)>(
      cleave::with(six, cleave::expect<batch, 64>{}, cleave::expect<embed, 32>{}, cleave::expect<hidden, 128>{},
                   cleave::expect<data, 2>{}, cleave::expect<model, 4>{}));
  EXPECT_EQ(cleave::explain(compiled, simple, {batch = 64, embed = 32, hidden = 128, data = 2, model = 4}), text);
}

TEST(study, counts_or_says_that_it_cannot) {
  const auto s = cleave::study::of<X(X, Up, Down)>(mlp);
  constexpr std::int64_t devices = 1 << 10; // along each axis
  const auto p = s.plan({batch = 1 << 24, embed = 1 << 20, hidden = 1 << 20, data = devices, model = devices});
  EXPECT_DOUBLE_EQ(p.predict(simple).flops, static_cast<double>(p.flops()));
  EXPECT_DOUBLE_EQ(p.predict(simple).network_bytes, static_cast<double>(p.bytes()));
  const auto large = s.plan({batch = 1LL << 40, embed = 1 << 24, hidden = 1 << 24, data = 2, model = 2});
  EXPECT_TRUE(std::isfinite(large.predict(simple).seconds));
  EXPECT_EQ(said([&] { static_cast<void>(large.flops()); }),
            "cleave: a device has more flops than 64 bits hold, with the sizes batch = 1099511627776, embed = "
            "16777216, hidden = 16777216, data = 2, model = 2");
}

TEST(study, counts_the_memory_of_a_device) {
  const auto p = cleave::study::of<X(X, Up, Down)>(mlp).plan(
      {batch = 64, embed = 32, hidden = 128, data = 2, model = 4});
  const cleave::memory_parts m = p.memory();
  EXPECT_EQ(m.arguments, 4 * (32 * 32 + 32 * 32 + 32 * 32));
  EXPECT_EQ(m.results, 4 * 32 * 32);
  EXPECT_EQ(m.total(), m.arguments + m.workspace.total());
  EXPECT_EQ(m.total(false), m.arguments + m.results + m.workspace.total());
  const std::string text = p.report(cleave::machines::a100);
  EXPECT_NE(text.find("1 x all_reduce"), text.npos) << text;
}

inline constexpr cleave::machine far_apart = cleave::machines::a100.with(model, cleave::link{1e-3, 1e8});
TEST(study, plans_for_the_rates_of_a_machine) {
  static_assert(cleave::for_machine<far_apart>::rule.byte == 1 / 1e8 &&
                cleave::for_machine<far_apart>::rule.message == 1e-3);
  static_assert(cleave::policy_of(cleave::machines::a100).byte == 1 / 22e9);
  EXPECT_EQ(cleave::machines::h100.link_of("x").near, 8);
  EXPECT_EQ(far_apart.link_of("model").bandwidth, 1e8);
  EXPECT_FALSE(cleave::for_machine<far_apart>::rule.takes_ties);
  EXPECT_TRUE((cleave::for_machine<far_apart, cleave::ties::broken>::rule.takes_ties));
  // Neighbours along an axis are as many ranks apart as the axes behind it have devices.
  EXPECT_EQ(cleave::machines::h100.link_of("x", 4).near, 2);
  EXPECT_EQ(cleave::machines::h100.link_of("x", 32).near, 1);
  const auto p = cleave::study::of<X(X, Up, Down)>(mlp);
  cleave::machine nodes = simple;
  nodes.every_axis = cleave::link{0, 1e6}.within(4, 0, 1e5);
  const auto seconds = [&](const cleave::machine& m, std::int64_t d, std::int64_t t) {
    return p.plan({batch = 64, embed = 32, hidden = 128, data = d, model = t}).predict(m).network;
  };
  EXPECT_DOUBLE_EQ(seconds(nodes, 2, 4), seconds(simple, 2, 4));
  EXPECT_GT(seconds(nodes, 1, 8), 1.5 * seconds(simple, 1, 8));
}

/// The layouts of the weights and of the activations of two products, from "everything replicated".
cleave::search_result searched(const cleave::machine& m, std::int64_t rows, double memory, std::int64_t enumerated) {
  auto s = cleave::study::of<X(X, Up, Down)>(mlp, {"x", "up", "down"});
  const std::vector<cleave::searched_group> groups{{{"up", "down"}, false, {"embed", "hidden"}},
                                                   {{"x", "result"}, false, {"batch", "embed"}}};
  cleave::search_options options;
  options.memory = memory;
  options.enumerated = enumerated;
  options.restarts = 2;
  return cleave::search(s, groups, {batch = rows, embed = 64, hidden = 256, data = 2, model = 4}, m, options);
}
TEST(study, searches_layouts) {
  cleave::machine slow_network = simple;
  slow_network.every_axis = {1e-3, 1e4};
  for (const cleave::machine& m : {simple, slow_network})
    for (const std::int64_t rows : {16, 4096})
      for (const double memory : {0., 1e5}) {
        const auto all = searched(m, rows, memory, 1024), some = searched(m, rows, memory, 0);
        EXPECT_TRUE(all.exact && !some.exact);
        EXPECT_EQ(all.plans, 256);
        EXPECT_LE(some.plans, all.plans);
        EXPECT_DOUBLE_EQ(some.best.seconds, all.best.seconds)
            << some.best.tables[0].text() << "; " << all.best.tables[0].text();
        // Each layout of the front is slower and smaller than the one before it.
        for (std::size_t i = 1; i < all.front.size(); ++i) {
          EXPECT_GE(all.front[i].seconds, all.front[i - 1].seconds);
          EXPECT_LT(all.front[i].memory, all.front[i - 1].memory);
        }
        if (memory == 0) {
          EXPECT_EQ(all.front.front().seconds, all.best.seconds);
        }
      }
  // The front as text: the points of the picture are those of the table.
  const auto front = searched(simple, 4096, 0, 1024);
  const std::string table = front.table(), picture = front.svg();
  const auto times = [](const std::string& in, std::string_view what) {
    std::size_t n = 0;
    for (std::size_t at = in.find(what); at != in.npos; at = in.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(times(table, "\n"), front.front.size() + 2) << table;
  EXPECT_EQ(times(picture, "<circle"), front.front.size()) << picture;
  EXPECT_EQ(picture.substr(0, 4) + picture.substr(picture.size() - 7), "<svg</svg>\n");
  EXPECT_NE(front.asserts.find("static_assert(plan.bytes({"), std::string::npos);
  // With many rows, and a slow network, the batch takes all devices and the weights are replicated.
  const auto rows = searched(slow_network, 1 << 20, 0, 1024);
  EXPECT_EQ(rows.best.tables[1].text(), "batch / data / model");
  EXPECT_EQ(rows.best.tables[0].text(), "");
}

// A product and its two gradients: AutoParallel's rule. With fewer tokens than features of the result the weights are
// sharded along features, and sums over tokens stay where they are; with more tokens these are sharded.
// Weights that do not fit a device are sharded within a node: their sums are larger than those of batches.
TEST(study, communicates_over_fast_axes) {
  const std::vector<cleave::searched_group> groups{{{"up", "down"}, false, {"embed", "hidden"}},
                                                   {{"x", "result"}, false, {"batch"}}};
  cleave::machine nodes = simple;
  nodes.every_axis = cleave::link{0, 1e9}.within(4, 0, 1e7);
  cleave::search_options options;
  options.memory = 5e6;
  const auto s = cleave::study::of<X(X, Up, Down)>(mlp, {"x", "up", "down"});
  const auto found = cleave::search(s, groups, {batch = 1024, embed = 256, hidden = 4096, data = 4, model = 4}, nodes,
                                    options);
  EXPECT_EQ(found.best.tables[0].text(), "hidden / model");
  EXPECT_EQ(found.best.tables[1].text(), "batch / data / model");
  EXPECT_EQ(found.cpp().find("no layout"), std::string::npos);
  options.memory = 1e5;
  EXPECT_NE(cleave::search(s, groups, {batch = 1024, embed = 256, hidden = 4096, data = 4, model = 4}, nodes, options)
                .cpp()
                .find("; no layout that was planned fits 9.313e-05 GiB\n"),
            std::string::npos);
}

TEST(study, shards_tokens_or_features_whichever_are_more) {
  using In = cleave::abstract<float, mesh(batch, embed)>;
  using Map = cleave::abstract<float, mesh(embed, hidden)>;
  using Out = cleave::abstract<float, mesh(batch, hidden)>;
  constexpr cleave::function step([](auto x, auto w, auto slope) {
    return std::tuple(dot(x, w, embed), dot(slope, w, hidden), dot(x, slope, batch));
  });
  const std::vector<cleave::searched_variant> variants{
      {"", cleave::study::of<std::tuple<Out, In, Map>(In, Map, Out)>(step, {"x", "w", "slope"}), {}}};
  const std::vector<cleave::searched_group> groups{{{"w", "result.2"}, false, {"embed", "hidden"}},
                                                   {{"x", "result.1"}, false, {"batch", "embed"}},
                                                   {{"slope", "result.0"}, false, {"batch", "hidden"}}};
  for (const std::int64_t features : {512, 768, 1536, 2048}) {
    const auto found = cleave::search(variants, groups,
                                      {batch = 1024, embed = 256, hidden = features, data = 8, model = 1}, simple);
    EXPECT_EQ(found.best.tables[2].text(), features > 1024 ? "hidden / data" : "batch / data") << features;
  }
}

} // namespace CLEAVE_SOURCE
