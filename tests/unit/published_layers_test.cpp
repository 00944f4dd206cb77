// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers as published models have them, under random meshes and layouts: the numbers of JAX (tests/reference), on one
// device and on many, and gradients that are limits of differences.
#include "../reference/layers_jax.hpp"
#include "layer_harness.hpp"

#include <cleave/expr/random.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/convolution.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>

namespace CLEAVE_SOURCE {

using namespace layer_tests;

constexpr dim_ref position{"position"}, source_{"source"}, embed{"embed"}, heads{"heads"}, head{"head"},
    hidden{"hidden"};
constexpr nn::attention_dims attended{position, source_, head};

layer of_jax(const char* name, std::vector<size_of_dim> sizes, std::vector<argument> arguments, function_of_values f,
             const std::vector<double>& values, double whole = 0) {
  return {name, std::move(sizes), std::move(arguments), std::move(f), [&values](auto) { return values; }, true, whole};
}

constexpr nn::scoring windowed{nn::both{nn::causal{}, nn::sliding_window{3}}, nn::alibi{heads}, 0.3, 2};

TEST(PublishedLayers, ScoresAreThoseOfJax) {
  const std::vector<size_of_dim> sizes{{"position", 6}, {"source", 6}, {"heads", 3}, {"head", 4}};
  const std::vector<argument> arguments{{{"position", "heads", "head"}},
                                        {{"source", "heads", "head"}},
                                        {{"source", "heads", "head"}}};
  const auto in_order = [](const value& x) { return ordered(x, {"position", "heads", "head"}); };
  check({of_jax(
             "all scores", sizes, arguments,
             [=](auto a) { return in_order(nn::attention(a[0], a[1], a[2], attended, windowed)); }, recorded::scored),
         of_jax(
             "in blocks", sizes, arguments,
             [=](auto a) {
               return in_order(nn::blocked_attention(a[0], a[1], a[2], attended, dim_ref{"blocks", 3}, windowed));
             },
             recorded::scored)},
        40);
}

TEST(PublishedLayers, RotationsAreThoseOfJax) {
  const std::vector<size_of_dim> sizes{{"position", 5}, {"heads", 2}, {"head", 8}};
  const auto turned = [](const nn::rotation& how) {
    return [=](std::span<const value> a) {
      return ordered(nn::rotary(a[0], iota(a[0], position), head, how), {"position", "heads", "head"});
    };
  };
  const std::vector<argument> arguments{{{"position", "heads", "head"}}};
  check({of_jax("pairs", sizes, arguments,
                turned({.base = 100, .neighbours = true, .factor = 4, .low = 1, .high = 4, .context = 60}),
                recorded::rotated_pairs),
         of_jax("halves", sizes, arguments, turned({.base = 100, .stretch = 2.5}), recorded::rotated_halves)},
        30);
}

TEST(PublishedLayers, AttentionToAnotherSequence) {
  const argument map{{"embed", "heads", "head"}}, bias{{"heads", "head"}};
  const auto crossing = [&](const char* name, bool once) {
    return of_jax(
        name, {{"position", 4}, {"source", 5}, {"embed", 3}, {"heads", 2}, {"head", 2}},
        {{{"position", "embed"}},
         {{"source", "embed"}},
         map,
         map,
         map,
         {{"heads", "head", "embed"}},
         bias,
         bias,
         bias,
         {{"embed"}}},
        [=](auto a) {
          const nn::attention_weights w{nn::linear_weights{a[2], a[6]}, nn::linear_weights{a[3], a[7]},
                                        nn::linear_weights{a[4], a[8]}, nn::linear_weights{a[5], a[9]}};
          const auto padding = [](const value&, const value& source) { return source < 4; };
          const nn::self_attention_options o{nn::all_scores{}, padding};
          const value y = once ? nn::cross_attention(a[0], nn::keys_and_values(a[1], w, embed), w, embed, attended, o,
                                                     heads)
                               : nn::cross_attention(a[0], a[1], w, embed, attended, o, heads);
          return ordered(y, {"position", "embed"});
        },
        recorded::crossed);
  };
  check({crossing("with biases and padding", false), crossing("with keys and values that are kept", true)}, 30);
}

template <class How>
value attending_with_a_cache(std::span<const value> a, const How& how) {
  const nn::attention_weights<value, value, value> w{a[1], a[2], a[3], a[4]};
  const auto begun = [](const value&, const value& source) { return source >= 1; };
  const value at = iota(a[0], position) + a[7] - 1;
  const nn::self_attention_options o{how, begun, std::identity{}, nn::rotation{100}, at};
  const auto [y, cache] = nn::self_attention(a[0], w, embed, attended, o, nn::kv_cache{a[5], a[6]}, a[7], heads);
  return ordered(y, {"position", "embed"});
}
TEST(PublishedLayers, AttentionWithACache) {
  const argument map{{"embed", "heads", "head"}}, room{{"source", "heads", "head"}};
  const std::vector<size_of_dim> sizes{{"position", 2}, {"source", 6}, {"embed", 3}, {"heads", 2}, {"head", 2}};
  const std::vector<argument> arguments{{{"position", "embed"}},      map,  map,  map,
                                        {{"heads", "head", "embed"}}, room, room, {{}, element::i32}};
  check({of_jax(
            "all of it", sizes, arguments, [](auto a) { return attending_with_a_cache(a, nn::all_scores{}); },
            recorded::cached, 3)},
        30);
  // The last span ends with the cache, or begins within the one before it, or is the only one.
  std::vector<layer> spans{
      of_jax(
          "a span of 2", sizes, arguments,
          [](auto a) { return attending_with_a_cache(a, nn::in_spans{dim<"span", 2>{}}); }, recorded::cached, 3),
      of_jax(
          "a span of 4", sizes, arguments,
          [](auto a) { return attending_with_a_cache(a, nn::in_spans{dim<"span", 4>{}}); }, recorded::cached, 3),
      of_jax(
          "a span of 6", sizes, arguments,
          [](auto a) { return attending_with_a_cache(a, nn::in_spans{dim<"span", 6>{}}); }, recorded::cached, 3)};
  for (layer& l : spans) l.differentiable = false;
  check(spans, 45);
}

TEST(PublishedLayers, FeedForward) {
  const argument map{{"embed", "hidden"}}, bias{{"hidden"}};
  check({of_jax(
             "gated with biases", {{"batch", 3}, {"embed", 4}, {"hidden", 5}},
             {{{"batch", "embed"}}, map, bias, map, bias, {{"hidden", "embed"}}, {{"embed"}}},
             [](auto a) {
               return nn::gated_feed_forward(a[0], nn::linear_weights{a[1], a[2]}, nn::linear_weights{a[3], a[4]},
                                             nn::linear_weights{a[5], a[6]}, embed, hidden,
                                             [](const value& h) { return nn::gelu_exact(h); });
             },
             recorded::gated),
         of_jax(
             "activations", {{"batch", 7}}, {{{"batch"}}},
             [](auto a) { return nn::quick_gelu(a[0]) + nn::squared_relu(a[0]); }, recorded::activated)},
        30);
}

TEST(PublishedLayers, NormalizationWithoutABias) {
  check({of_jax(
            "and with one", {{"batch", 3}, {"embed", 4}}, {{{"batch", "embed"}}, {{"embed"}}, {{"embed"}}},
            [](auto a) {
              return nn::layer_norm(nn::layer_norm(a[0], a[1], embed, 1e-3), nn::norm_weights{a[1], a[2]}, embed);
            },
            recorded::normed)},
        30);
}

constexpr dim_ref batch{"batch"}, a_{"a"}, b_{"b"}, c_{"c"}, a2{"a2"}, b2{"b2"}, ka{"ka", 3}, kb{"kb", 3}, kc{"kc", 2},
    in_{"in"};

TEST(PublishedLayers, ConvolutionsAreThoseOfJax) {
  const std::vector<layer> all{
      of_jax(
          "along a line", {{"batch", 2}, {"a", 9}, {"in", 3}, {"out", 2}},
          {{{"batch", "a", "in"}}, {{"ka", "in", "out"}}, {{"out"}}},
          [](auto a) {
            return ordered(nn::convolution(a[0], nn::linear_weights{a[1], a[2]}, in_, window{a_, a2, ka, 2, 2, 1, 2}),
                           {"batch", "a2", "out"});
          },
          recorded::convolved_line),
      of_jax(
          "in a plane", {{"batch", 2}, {"a", 7}, {"b", 5}, {"in", 2}, {"out", 3}},
          {{{"batch", "a", "b", "in"}}, {{"ka", "kb", "in", "out"}}},
          [](auto a) {
            return ordered(nn::convolution(a[0], a[1], in_, nn::centred(a_, a2, ka, 2), nn::centred(b_, kb)),
                           {"batch", "a2", "b", "out"});
          },
          recorded::convolved_plane),
      of_jax(
          "in space", {{"batch", 1}, {"a", 4}, {"b", 3}, {"c", 5}, {"in", 2}, {"out", 2}},
          {{{"batch", "a", "b", "c", "in"}}, {{"ka", "kb", "kc", "in", "out"}}},
          [](auto a) {
            return ordered(nn::convolution(a[0], a[1], in_, nn::centred(a_, ka), nn::centred(b_, kb),
                                           window{c_, dim_ref{"c2"}, kc}),
                           {"batch", "a", "b", "c2", "out"});
          },
          recorded::convolved_space),
      of_jax(
          "of each channel", {{"batch", 2}, {"a", 5}, {"b", 4}, {"in", 3}, {"out", 2}},
          {{{"batch", "a", "b", "in"}}, {{"ka", "kb", "in", "out"}}, {{"in", "out"}}},
          [](auto a) {
            return ordered(nn::depthwise_convolution(a[0], nn::linear_weights{a[1], a[2]}, nn::centred(a_, ka),
                                                     nn::centred(b_, kb)),
                           {"batch", "a", "b", "in", "out"});
          },
          recorded::depthwise),
      of_jax(
          "of groups", {{"batch", 2}, {"a", 6}, {"group", 2}, {"in", 2}, {"out", 3}},
          {{{"batch", "a", "group", "in"}}, {{"ka", "group", "in", "out"}}},
          [](auto a) {
            return ordered(nn::convolution(a[0], a[1], in_, nn::centred(a_, ka)), {"batch", "a", "group", "out"});
          },
          recorded::grouped),
      of_jax(
          "transposed", {{"batch", 2}, {"a2", 4}, {"b", 3}, {"in", 2}, {"out", 3}},
          {{{"batch", "a2", "b", "in"}}, {{"k4", "kb", "in", "out"}}, {{"out"}}},
          [](auto a) {
            return ordered(nn::transposed_convolution(a[0], nn::linear_weights{a[1], a[2]}, in_,
                                                      window{a_, a2, dim_ref{"k4", 4}, 2, 1, 1, 1},
                                                      nn::centred(b_, kb)),
                           {"batch", "a", "b", "out"});
          },
          recorded::transposed),
      of_jax(
          "patches with waves", {{"batch", 2}, {"a", 4}, {"b", 6}, {"in", 2}, {"embed", 4}},
          {{{"batch", "a", "b", "in"}}, {{"p", "q", "in", "embed"}}, {{"embed"}}},
          [](auto a) {
            const value x = nn::patch_embedding(a[0], nn::linear_weights{a[1], a[2]}, in_, position,
                                                nn::patch{a_, a2, dim_ref{"p", 2}}, nn::patch{b_, b2, dim_ref{"q", 2}});
            return ordered(x + nn::sinusoidal(x, iota(x, position), embed, 100), {"batch", "position", "embed"});
          },
          recorded::cut_into_patches)};
  check(all, 105);
}

TEST(PublishedLayers, Pooling) {
  const auto pooled = [](const char* name, auto f, const std::vector<double>& values) {
    return of_jax(
        name, {{"batch", 2}, {"a", 7}, {"b", 4}}, {{{"batch", "a", "b"}}},
        [=](auto a) { return f(a[0], window{a_, a2, ka, 2, 1, 1, 1}, window{b_, b2, kc, 2}); }, values);
  };
  check({pooled(
             "the largest",
             [](auto x, auto... w) { return ordered(nn::max_pool(x - 2.0, w...), {"batch", "a2", "b2"}); },
             recorded::pooled_by_maximum),
         pooled(
             "the mean",
             [](auto x, auto... w) {
               return ordered(stack(dim_ref{"both"}, nn::average_pool(x, w...),
                                    nn::average_pool_without_padding(x, w...)),
                              {"both", "batch", "a2", "b2"});
             },
             recorded::pooled_by_mean)},
        40);
}

TEST(PublishedLayers, PoolsOfCirclesAndOfIntegers) {
  const auto largest = [](std::span<const host_array> x, std::int64_t stride, bool around, double less) {
    std::vector<double> all;
    const auto n = static_cast<std::int64_t>(x[0].data.size());
    for (std::int64_t i = 0; i < n; i += stride) {
      double most = -1e300;
      for (std::int64_t j = i - 1; j <= i + 1; ++j)
        if (around || (j >= 0 && j < n)) most = std::max(most, x[0].data[static_cast<std::size_t>((j + n) % n)]);
      all.push_back(most - less);
    }
    return all;
  };
  check({{"around a circle",
          {{"a", 7}},
          {{{"a"}}},
          [](auto a) { return nn::max_pool(a[0] - 2.0, window{a_, a2, ka, 1, 1, 1, 1, border::periodic}); },
          [=](auto x) { return largest(x, 1, true, 2); }},
         {"of integers",
          {{"a", 7}},
          {{{"a"}, element::i32, 9}},
          [](auto a) { return cast<double>(nn::max_pool(a[0] - 20, window{a_, a2, ka, 2, 1, 1, 1})); },
          [=](auto x) { return largest(x, 2, false, 20); }}},
        40);
}

constexpr dim_ref c2{"c2"}, pa{"p", 3}, pb{"q", 2}, pc{"r", 2};

TEST(PublishedLayers, PatchesOfLinesAndVolumes) {
  check({{"of a line, with a rest",
          {{"a", 7}, {"in", 2}},
          {{{"a", "in"}}, {{"p", "in"}}},
          [](auto a) { return nn::patch_embedding(a[0], a[1], in_, position, nn::patch{a_, a2, pa}); },
          [](auto x) {
            std::vector<double> all(2);
            const std::size_t in = x[1].data.size() / 3;
            for (std::size_t i = 0; i < 6 * in; ++i) all[i / (3 * in)] += x[0].data[i] * x[1].data[i % (3 * in)];
            return all;
          }},
         {"of a volume",
          {{"a", 3}, {"b", 4}, {"c", 2}, {"in", 2}},
          {{{"a", "b", "c", "in"}}, {{"p", "q", "r", "in"}}},
          [](auto a) {
            return nn::patch_embedding(a[0], a[1], in_, position, nn::patch{a_, a2, pa}, nn::patch{b_, b2, pb},
                                       nn::patch{c_, c2, pc});
          },
          [](auto x) {
            std::vector<double> all(2);
            for (std::size_t a = 0; a < 3; ++a)
              for (std::size_t b = 0; b < 4; ++b)
                for (std::size_t c = 0; c < 4; ++c) // of the last two dims together
                  all[b / 2] += x[0].data[(a * 4 + b) * 4 + c] * x[1].data[(a * 2 + b % 2) * 4 + c];
            return all;
          }}},
        40);
}

TEST(PublishedLayers, NormalizationOfBatchesAndGroups) {
  const argument x{{"batch", "a", "in"}}, of_channels{{"in"}};
  constexpr nn::batch_norm_options o{1e-3, 0.2};
  check({of_jax(
             "of a batch", {{"batch", 3}, {"a", 4}, {"in", 2}}, {x, of_channels, of_channels},
             [=](auto a) {
               const nn::running_moments so_far{a[1], a[1]};
               return nn::batch_norm(a[0], nn::norm_weights{a[1], a[2]}, so_far, o, batch, a_).first;
             },
             recorded::of_a_batch),
         of_jax(
             "of an instance", {{"batch", 3}, {"a", 4}, {"in", 2}}, {x, of_channels, of_channels},
             [](auto a) { return nn::instance_norm(a[0], nn::norm_weights{a[1], a[2]}, 1e-3, a_); },
             recorded::of_an_instance),
         of_jax(
             "of groups", {{"batch", 3}, {"a", 4}, {"in", 6}}, {x, of_channels, of_channels},
             [](auto a) {
               return ordered(nn::group_norm(a[0], nn::norm_weights{a[1], a[2]}, 1e-3, in_, dim_ref{"group", 2}, a_),
                              {"batch", "a", "in"});
             },
             recorded::of_groups)},
        45);
  // Running moments have no gradient.
  layer later = of_jax(
      "after a batch", {{"batch", 3}, {"a", 4}, {"in", 2}}, {x, of_channels, of_channels, of_channels, of_channels},
      [=](auto a) {
        const nn::norm_weights w{a[1], a[2]};
        const auto so_far = nn::batch_norm(a[0], w, nn::running_moments{a[3], 2.0 + a[4]}, o, batch, a_).second;
        return nn::batch_norm(a[0], w, so_far, o);
      },
      recorded::after_a_batch);
  later.differentiable = false;
  check({later}, 10);
}

// h becomes 2 h + w of the layer + its number, in order.
constexpr axis<"model"> model;
constexpr dim<"batch"> rows;
constexpr dim<"layer"> layers_;
constexpr dim<"stage"> stage;
constexpr dim<"microbatch"> microbatch;
constexpr mesh one_axis{model};

template <class Layout>
value numbered(const Layout& layout, const value& x, const value& w) {
  return nn::blocks(layout, layers_, x, w, [](const auto& h, const auto& own, const auto& index) {
    return 2 * h + own + cast<double>(index);
  });
}
TEST(PublishedLayers, BlocksKnowTheirNumber) {
  constexpr nn::model_layout in_order{nn::layout_rules{one_axis}, nn::layout_rules{one_axis}};
  constexpr auto staged = nn::model_layout{nn::layout_rules{one_axis, nn::after(layers_, stage)},
                                           nn::layout_rules{one_axis, nn::before(rows, microbatch)}}
                              .scheduled(nn::pipelined{stage, microbatch});
  const auto by_hand = [](std::size_t rows, const std::vector<double>& x, const std::vector<double>& w) {
    std::vector<double> h = x;
    for (std::size_t l = 0; l < w.size(); ++l)
      for (std::size_t i = 0; i < rows; ++i) h[i] = 2 * h[i] + w[l] + static_cast<double>(l);
    return h;
  };
  check({{"one after the other",
          {{"batch", 3}, {"layer", 4}},
          {{{"batch"}}, {{"layer"}}},
          [=](auto a) { return numbered(in_order, a[0], a[1]); },
          [=](auto a) { return by_hand(3, a[0].data, a[1].data); }}},
        15);
  // In stages the layout names a mesh of its own.
  const mesh_value devices = decltype(one_axis)::value;
  recorder in(devices);
  const auto given = [&](std::initializer_list<const char*> dims) {
    spec s;
    s.mesh = devices;
    for (const char* d : dims) s.dims.push_back(placement(dim_ref{d}));
    return in.input(element::f64, s);
  };
  const value x = given({"microbatch"}), w = given({"layer", "stage"});
  spec whole;
  whole.mesh = devices;
  whole.dims.push_back(placement(dim_ref{"microbatch"}));
  in.output(numbered(staged, x, w), element::f64, whole);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  const std::vector<named_size> extents{{"microbatch", 3}, {"layer", 2}, {"stage", 2}, {"model", 1}};
  const cleave::sizes at = sizes_for(g, extents);
  host_array rows_of(shape_of(g.nodes[g.inputs[0]].type, at)), weights(shape_of(g.nodes[g.inputs[1]].type, at));
  rows_of.data = {0.5, -1, 3};
  weights.data = {1, -2, 0.25, 4}; // [layer][stage]
  const std::vector<double> got = evaluate(g, at, std::vector{rows_of, weights})[0].data;
  EXPECT_EQ(got, by_hand(3, rows_of.data, {1, 0.25, -2, 4}));
}

} // namespace CLEAVE_SOURCE
