// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave::search` over variants of a function, shapes of the mesh and layouts, compared with an enumeration written
// here for two groups and two axes.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/pipeline.hpp>
#include <cleave/study/search.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

using X = cleave::abstract<float, mesh(batch, embed)>;
using Up = cleave::abstract<float, mesh(embed, hidden)>;
using Down = cleave::abstract<float, mesh(hidden, embed)>;

/// The parts of the function that is recorded next.
std::mt19937 chosen;
int below(int n) { return static_cast<int>(chosen() % static_cast<unsigned>(n)); }

constexpr cleave::function block([](auto x, auto up, auto down) {
  cleave::value h = dot(x, up, embed);
  switch (below(4)) {
    case 0: h = relu(h); break;
    case 1: h = tanh(h) * h; break;
    case 2: h = h - mean(h, hidden); break;
    default: h = roll(h, hidden, 1) + h;
  }
  cleave::value y = dot(h, down, hidden);
  switch (below(4)) {
    case 0: y = y + x; break;
    case 1: y = exp(y - max(y, embed)); break;
    case 2: y = y * sum(x, batch); break;
    default: break;
  }
  return y;
});
template <bool Again>
constexpr cleave::function loss([](auto up, auto down, auto x) {
  cleave::value v = x;
  for (int i = 1 + below(2); i > 0; --i)
    if constexpr (Again) v = remat(block)(v, up, down);
    else v = block(v, up, down);
  return sum(v * v);
});
template <bool Again>
cleave::study recorded(unsigned seed) {
  chosen.seed(seed);
  return cleave::study::of<std::tuple<Up, Down>(Up, Down, X)>(cleave::grad<0, 1>(loss<Again>), {"up", "down", "x"});
}

struct point {
  double seconds, bytes;
  auto operator<=>(const point&) const = default;
};
/// All plans of all variants on all meshes of so many devices, and all layouts.
std::vector<point> all_points(const std::vector<cleave::searched_variant>& variants,
                              const std::vector<cleave::searched_group>& groups,
                              const std::vector<cleave::named_size>& sizes, std::int64_t devices,
                              const cleave::machine& m) {
  std::vector<std::pair<std::size_t, std::string>> places;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const std::string& dim : groups[g].dims) places.emplace_back(g, dim);
  const std::string axes[] = {"", " / data", " / model", " / data / model"};
  cleave::policy rule = cleave::policy_of(m);
  rule.takes_ties = true;
  std::vector<point> all;
  for (const cleave::searched_variant& v : variants)
    for (std::int64_t rows = 1; rows <= devices; ++rows) {
      if (devices % rows != 0) continue;
      std::vector<cleave::named_size> at = sizes;
      at.push_back(data = rows);
      at.push_back(model = devices / rows);
      for (std::size_t word = 0; word < std::size_t{1} << 2 * places.size(); ++word) {
        std::vector<std::string> text(groups.size());
        bool without_effect = false;
        for (std::size_t i = 0; i < places.size(); ++i)
          if (const std::string& over = axes[word >> 2 * i & 3]; !over.empty()) {
            std::string& of_group = text[places[i].first];
            of_group += (of_group.empty() ? "" : ", ") + places[i].second + over;
            without_effect |= (rows == 1 && over.find("data") != over.npos) ||
                              (rows == devices && over.find("model") != over.npos);
          }
        if (without_effect) continue;
        cleave::study s = v.of;
        for (std::size_t g = 0; g < groups.size(); ++g)
          for (const std::string& name : groups[g].tensors) s.lay_out(name, cleave::layout_table(text[g]));
        const auto p = s.plan({at.data(), at.size()}, rule);
        all.push_back({p.predict(m).seconds, static_cast<double>(p.memory().total())});
      }
    }
  return all;
}

cleave::machine random_machine() {
  cleave::machine m;
  m.flops_of_4 = 1e9 * (1 + below(50));
  m.memory_bandwidth = 1e8 * (1 + below(20));
  m.every_axis = cleave::link{1e-7 * (1 + below(50)), 1e7 * (1 + below(50))};
  if (below(2) == 0) m.every_axis = m.every_axis.within(2, 1e-5, 1e7);
  m.overlaps = below(2) == 0;
  return m;
}

// 200 random models, each plain and computed again, with random sizes, machines, groups and limits of memory.
TEST(variants, are_searched_as_an_enumeration_does) {
  std::int64_t plans = 0, searched = 0;
  int best_found = 0, other_meshes = 0, again = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const std::vector<cleave::searched_variant> variants{{"plain", recorded<false>(seed), {}},
                                                         {"again", recorded<true>(seed), {}}};
    chosen.seed(seed);
    const std::vector<cleave::named_size> sizes{batch = 1 + below(40), embed = 1 + below(40), hidden = 1 + below(60)};
    const std::int64_t devices = 2 + below(5);
    const cleave::machine m = random_machine();
    const char* of_weights = below(2) == 0 ? "hidden" : "embed";
    const std::vector<cleave::searched_group> groups{{{"up", "down", "result.*"}, false, {of_weights}},
                                                     {{"x"}, false, {below(3) == 0 ? "embed" : "batch"}}};
    const std::vector<point> all = all_points(variants, groups, sizes, devices, m);
    const auto smaller = [](const point& a, const point& b) { return a.bytes < b.bytes; };
    const auto [least, most] = std::minmax_element(all.begin(), all.end(), smaller);
    // Sometimes nothing fits.
    const double limit = least->bytes + (most->bytes - least->bytes) * (below(12) - 1) / 10;
    const auto fits = [&](const point& a) { return a.bytes <= limit; };
    const auto better = [&](const point& a, const point& b) {
      if (fits(a) != fits(b)) return fits(a);
      return fits(a) ? a < b : std::pair(a.bytes, a.seconds) < std::pair(b.bytes, b.seconds);
    };
    const point best = *std::min_element(all.begin(), all.end(), better);

    cleave::search_options options;
    options.memory = limit;
    options.devices = devices;
    const auto found = cleave::search(variants, groups, sizes, m, options);
    ASSERT_TRUE(found.exact) << seed;
    EXPECT_EQ(found.best.seconds, best.seconds) << seed;
    EXPECT_EQ(found.best.memory, best.bytes) << seed;
    EXPECT_EQ(found.plans, std::ssize(all)) << seed;
    // The front has no point that another one beats, and every point that none beats.
    for (const point& p : all) {
      const auto beats = [&](const cleave::searched_layout& l) {
        return l.seconds <= p.seconds && l.memory <= p.bytes;
      };
      EXPECT_TRUE(std::any_of(found.front.begin(), found.front.end(), beats)) << seed;
    }
    for (std::size_t i = 1; i < found.front.size(); ++i) {
      EXPECT_GE(found.front[i].seconds, found.front[i - 1].seconds);
      EXPECT_LT(found.front[i].memory, found.front[i - 1].memory);
    }
    plans += found.plans;
    other_meshes += found.best.mesh[0].size != 1 && found.best.mesh[1].size != 1;
    again += found.best.variant == "again";

    // The local search, which plans some.
    options.enumerated = 0;
    const auto some = cleave::search(variants, groups, sizes, m, options);
    EXPECT_FALSE(some.exact);
    EXPECT_LE(some.plans, found.plans);
    searched += some.plans;
    if (some.best.seconds == best.seconds && some.best.memory == best.bytes) ++best_found;
  }
  // The cases are not all alike.
  EXPECT_GT(other_meshes, 20);
  EXPECT_GT(again, 5);
  EXPECT_LT(searched, plans * 2 / 3);
  EXPECT_GE(best_found, 190);
}

// The memory of 1,000 random plans is that of a loop over the devices; of few classes of them, where it says so.
TEST(variants, have_the_memory_of_a_loop_over_devices) {
  int exact = 0, uneven = 0;
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    cleave::study s = recorded<false>(seed);
    chosen.seed(seed);
    const auto rules = [&] {
      const char* over[] = {"", " / data", " / model", " / data / model"};
      std::string text;
      for (const char* dim : {"batch", "embed", "hidden"})
        if (const char* axes = over[below(4)]; *axes != 0)
          text += (text.empty() ? "" : ", ") + (dim + std::string(axes));
      return cleave::layout_table(text);
    };
    for (const char* name : {"up", "down", "x", "result.*"}) s.lay_out(name, rules());
    const std::int64_t each = below(3) == 0 ? 1 : 16; // shards are mostly even
    cleave::policy rule = cleave::policy::time();
    rule.takes_ties = true;
    const std::vector<cleave::named_size> sizes{batch = each * (1 + below(9)), embed = each * (1 + below(9)),
                                                hidden = each * (1 + below(9)), data = 2 + 2 * below(2), model = 4};
    const auto p = s.plan({sizes.data(), sizes.size()}, rule);
    const cleave::program_view view = p.view();
    std::int64_t most = 0, least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t d = 0; d < p.planned_for().axes.devices(); ++d) {
      const std::int64_t own =
          cleave::workspace_on(view, p.planned_for(), coordinates_of(d, p.planned_for().axes)).total();
      most = std::max(most, own);
      least = std::min(least, own);
    }
    uneven += most != least;
    EXPECT_TRUE(p.memory_is_exact()) << seed;
    EXPECT_EQ(p.memory().workspace.total(), most) << seed;
    const cleave::compared_workspace few = cleave::find_workspace(view, p.planned_for(), 6);
    exact += few.exact;
    EXPECT_LE(few.parts.total(), most) << seed;
    if (few.exact) {
      EXPECT_EQ(few.parts.total(), most) << seed;
    }
  }
  EXPECT_GT(exact, 300);
  EXPECT_LT(exact, 1000);
  EXPECT_GT(uneven, 100);
  // Of more devices: even shards, and uneven ones.
  constexpr cleave::function two([](auto x, auto up, auto down) { return dot(dot(x, up, embed), down, hidden); });
  auto s = cleave::study::of<X(X, Up, Down)>(two, {"x", "up", "down"});
  s.lay_out("*", cleave::layout_table("batch / data, hidden / model"));
  for (const std::int64_t rows : {1024, 1023, 1000})
    for (const std::int64_t columns : {1024, 700}) {
      const auto p = s.plan({batch = rows, embed = 8, hidden = columns, data = 1024, model = 1024});
      EXPECT_TRUE(p.memory_is_exact());
      EXPECT_EQ(p.memory().workspace.total(), cleave::workspace_on(p.view(), p.planned_for(), {}).total());
    }
}

inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"microbatch"> microbatch;
inline constexpr cleave::dim<"next"> next;
constexpr auto layer = [](const auto& x, const auto& w) { return tanh(rename(dot(x, w, embed), next, embed)); };
using Batches = cleave::abstract<float, mesh(microbatch, batch, embed)>;
using Stages = cleave::abstract<float, mesh(stage, embed, next)>;
constexpr cleave::function pipelined([](const auto& x, const auto& w) {
  return cleave::nn::pipeline(x, w, {stage, microbatch}, layer,
                              [](const auto& v) { return constrain(v, cleave::nn::layout_rules{mesh, stage / data}); });
});

inline constexpr cleave::machine cluster = [] {
  cleave::machine m;
  m.flops_of_4 = 1e10;
  m.memory_bandwidth = 1e12;
  m.every_axis = {1e-6, 1e9};
  return m;
}();

// A pipeline of as many stages as an axis has devices is a variant with sizes of its own.
TEST(variants, have_sizes_and_dims_of_their_own) {
  const auto staged = cleave::study::of<Batches(Batches, Stages)>(pipelined, {"x", "weights"});
  std::vector<cleave::searched_variant> variants;
  for (const std::int64_t micro : {1, 2, 4, 8})
    variants.push_back({std::to_string(micro) + " microbatches",
                        staged,
                        {microbatch = micro, batch = 512 / micro, stage = 4, data = 4}});
  const std::vector<cleave::searched_group> groups{
      {{"weights"}, false, {"stage"}, cleave::layout_table("stage / data")}, {{"x", "result"}, false, {"batch"}}};
  cleave::search_options options;
  options.devices = 8;
  const auto found = cleave::search(variants, groups, {embed = 256, next = 256}, cluster, options);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(found.best.mesh_text(), "data = 4, model = 2");
  for (const auto& l : found.front) EXPECT_EQ(l.mesh_text(), "data = 4, model = 2");
  // No axis is left for the others.
  options.devices = 6;
  try {
    static_cast<void>(cleave::search(variants, groups, {embed = 256, next = 256}, cluster, options));
    ADD_FAILURE();
  } catch (const cleave::layout_error& e) {
    EXPECT_STREQ(e.what(), "cleave: no variant of the search has a mesh of 6 devices");
  }
}

// As 1F1B a pipeline of 4 stages keeps 4 of 16 microbatches; with 2 rounds, 4 * 2 + 3 parts of a stage.
inline constexpr cleave::dim<"round"> round_of;
using Rounds = cleave::abstract<float, mesh(round_of, stage, embed, next)>;
constexpr cleave::function circular([](const auto& x, const auto& w) {
  return cleave::nn::pipeline(x, w, {stage, microbatch, 2, round_of}, layer,
                              [](const auto& v) { return constrain(v, cleave::nn::layout_rules{mesh, stage / data}); });
});
TEST(variants, of_pipelines_keep_the_microbatches_in_flight) {
  const auto kept = [](const cleave::study& s, std::int64_t rounds) {
    std::vector<cleave::named_size> sizes{microbatch = 16, batch = 8, stage = 4, embed = 64,
                                          next = 64,       data = 4,  model = 1};
    if (rounds > 1) sizes.push_back(round_of = rounds);
    const auto p = s.plan({sizes.data(), sizes.size()});
    const cleave::sizes all = p.planned_for(), some = cleave::sizes_in_flight(p.view(), all);
    std::vector<std::int64_t> changed;
    for (int d = 0; d < cleave::max_dims; ++d)
      if (all.dims[d] != some.dims[d]) changed.push_back(some.dims[d]);
    std::sort(changed.begin(), changed.end());
    EXPECT_LT(p.memory_in_flight().workspace.total(), p.memory().workspace.total());
    EXPECT_EQ(p.memory_in_flight().arguments, p.memory().arguments);
    return changed;
  };
  EXPECT_EQ(kept(cleave::study::of<Batches(Batches, Stages)>(pipelined), 1), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(kept(cleave::study::of<Batches(Batches, Rounds)>(circular), 2), (std::vector<std::int64_t>{4, 11}));
}

// With several layers in a stage too, gradients are reduced over the batches once, after the loop over ticks.
inline constexpr cleave::dim<"layer"> layers;
using Stacked = cleave::abstract<float, mesh(round_of, layers, stage / data, embed, next)>;
using Sharded = cleave::abstract<float, mesh(microbatch, batch / model, embed)>;
constexpr auto in_stages = [](const auto& v) {
  return constrain(v, cleave::nn::layout_rules{mesh, stage / data, batch / model});
};
constexpr auto all_layers = [](const auto& x, const auto& w) {
  return scan(layers, x, w, cleave::remat(cleave::function(layer)));
};
constexpr cleave::function deep([](const auto& w, const auto& x) {
  return sum(cleave::nn::pipeline(x, w, {stage, microbatch, 2, round_of}, all_layers, in_stages));
});
TEST(variants, of_interleaved_pipelines_reduce_gradients_once) {
  const auto p = cleave::study::of<Stacked(Stacked, Sharded)>(cleave::grad(deep))
                     .plan({microbatch = 16, layers = 3, batch = 64, embed = 1024, next = 1024, stage = 4, data = 4,
                            model = 4, round_of = 2});
  EXPECT_EQ(p.count(cleave::kind::all_reduce), 1);
  for (const cleave::step& s : p.view().steps) EXPECT_TRUE(s.move != cleave::kind::all_reduce || s.in_loop == 0);
}

// The printed program compiles, and its assertions hold.
TEST(variants, print_themselves_as_a_program) {
  using signature = X(X, Up, Down);
  constexpr cleave::function f([](auto x, auto up, auto down) { return dot(dot(x, up, embed), down, hidden); });
  cleave::search_options options;
  options.devices = 8;
  options.memory = 2e6;
  const auto found = cleave::search(cleave::study::of<signature>(f, {"x", "up", "down"}),
                                    {{{"up", "down"}, false, {"hidden"}}, {{"x", "result"}, false, {"batch"}}},
                                    {batch = 64, embed = 512, hidden = 1024}, cluster, options);
  EXPECT_EQ(found.cpp("f", "with_rules", "cluster"), R"(// 0.002076 s, 0.001068 GiB
constexpr auto rules_0 = cleave::nn::layout_rules{mesh, hidden / model}; // up, down
constexpr auto rules_1 = cleave::nn::layout_rules{mesh, batch / data}; // x, result
constexpr auto plan = cleave::plan<with_rules>(f, cleave::for_machine<cluster, cleave::ties::broken>{},
    cleave::expect<batch, 64>{}, cleave::expect<embed, 512>{}, cleave::expect<hidden, 1024>{},
    cleave::expect<data, 2>{}, cleave::expect<model, 4>{});
static_assert(plan.collectives() == 1);
static_assert(plan.count(cleave::kind::all_reduce) == 1);
static_assert(plan.bytes({batch = 64, embed = 512, hidden = 1024, data = 2, model = 4}) == 98304);
const cleave::grid grid(mesh, communicator, {data = 2, model = 4});
)");
  constexpr auto rules_0 = cleave::nn::layout_rules{mesh, hidden / model}; // up, down
  constexpr auto rules_1 = cleave::nn::layout_rules{mesh, batch / data};   // x, result
  using Rows = cleave::abstract<float, rules_1(batch, embed)>;
  using with_rules = Rows(Rows, cleave::abstract<float, rules_0(embed, hidden)>,
                          cleave::abstract<float, rules_0(hidden, embed)>);
  constexpr auto plan = cleave::plan<with_rules>(f, cleave::for_machine<cluster, cleave::ties::broken>{},
                                                 cleave::expect<batch, 64>{}, cleave::expect<embed, 512>{},
                                                 cleave::expect<hidden, 1024>{}, cleave::expect<data, 2>{},
                                                 cleave::expect<model, 4>{});
  static_assert(plan.collectives() == 1);
  static_assert(plan.count(cleave::kind::all_reduce) == 1);
  static_assert(plan.bytes({batch = 64, embed = 512, hidden = 1024, data = 2, model = 4}) == 98304);
}

} // namespace CLEAVE_SOURCE
