// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layers of cleave/nn under random meshes, layouts and extents: what formulas written out by hand give, on one
// device and on many, and gradients that are limits of differences.
#include "layer_harness.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/mixture_of_experts.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>

namespace CLEAVE_SOURCE {

using namespace layer_tests;

using namespace cleave;

constexpr dim_ref batch{"batch"}, position{"position"}, source_{"source"}, embed{"embed"}, head{"head"},
    hidden{"hidden"}, word{"word"};

// Attention by loops: q [b][p][n][g][h], k and v [b][s][n][h], g query heads to a head of keys.
std::vector<double> attention_by_hand(std::span<const host_array> a, std::int64_t B, std::int64_t P, std::int64_t S,
                                      std::int64_t N, std::int64_t G, std::int64_t H,
                                      const std::function<bool(std::int64_t, std::int64_t, std::int64_t)>& sees) {
  const auto& [q, k, v] = std::tie(a[0].data, a[1].data, a[2].data);
  std::vector<double> out(static_cast<std::size_t>(B * P * N * G * H), 0);
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t p = 0; p < P; ++p)
      for (std::int64_t n = 0; n < N; ++n)
        for (std::int64_t g = 0; g < G; ++g) {
          const std::int64_t query = (((b * P + p) * N + n) * G + g) * H;
          std::vector<double> weights(static_cast<std::size_t>(S), 0);
          double total = 0;
          for (std::int64_t s = 0; s < S; ++s) {
            if (!sees(b, p, s)) continue;
            double score = 0;
            for (std::int64_t h = 0; h < H; ++h)
              score += q[static_cast<std::size_t>(query + h)] *
                       k[static_cast<std::size_t>(((b * S + s) * N + n) * H + h)];
            total += weights[static_cast<std::size_t>(s)] = std::exp(score / std::sqrt(static_cast<double>(H)));
          }
          for (std::int64_t s = 0; s < S; ++s)
            for (std::int64_t h = 0; h < H; ++h)
              out[static_cast<std::size_t>(query + h)] += weights[static_cast<std::size_t>(s)] / total *
                                                          v[static_cast<std::size_t>(((b * S + s) * N + n) * H + h)];
        }
  return out;
}
bool everyone(std::int64_t, std::int64_t, std::int64_t) { return true; }
bool before(std::int64_t, std::int64_t p, std::int64_t s) { return p >= s; }

constexpr nn::attention_dims attended{position, source_, head};

TEST(Attention, IsItsFormula) {
  const std::vector<argument> grouped{{{"batch", "position", "heads", "group", "head"}},
                                      {{"batch", "source", "heads", "head"}},
                                      {{"batch", "source", "heads", "head"}}};
  const std::vector<size_of_dim> sizes{{"batch", 2}, {"position", 5}, {"source", 6},
                                       {"heads", 2}, {"group", 3},    {"head", 4}};
  const auto in_order = [](const value& x) { return ordered(x, {"batch", "position", "heads", "group", "head"}); };
  check({{"grouped", sizes, grouped, [=](auto a) { return in_order(nn::attention(a[0], a[1], a[2], attended)); },
          [](auto a) { return attention_by_hand(a, 2, 5, 6, 2, 3, 4, everyone); }},
         {"grouped, causal", sizes, grouped,
          [=](auto a) { return in_order(nn::attention(a[0], a[1], a[2], attended, nn::causal{})); },
          [](auto a) { return attention_by_hand(a, 2, 5, 6, 2, 3, 4, before); }},
         {"in blocks", sizes, grouped,
          [=](auto a) { return in_order(nn::blocked_attention(a[0], a[1], a[2], attended, dim<"block", 3>{})); },
          [](auto a) { return attention_by_hand(a, 2, 5, 6, 2, 3, 4, everyone); }},
         {"in blocks, causal", sizes, grouped,
          [=](auto a) {
            return in_order(nn::blocked_attention(a[0], a[1], a[2], attended, dim<"block", 2>{}, nn::causal{}));
          },
          [](auto a) { return attention_by_hand(a, 2, 5, 6, 2, 3, 4, before); }},
         {"in blocks of two lengths", sizes, grouped,
          [=](auto a) {
            const auto with = [&](dim_ref block) { return nn::blocked_attention(a[0], a[1], a[2], attended, block); };
            return in_order(with(dim<"block of two", 3>{}) + with(dim<"block of three", 2>{}));
          },
          [](auto a) {
            std::vector<double> twice = attention_by_hand(a, 2, 5, 6, 2, 3, 4, everyone);
            for (double& x : twice) x *= 2;
            return twice;
          }},
         {"in blocks of two sequences",
          {{"batch", 2}, {"position", 5}, {"source", 6}, {"other", 4}, {"heads", 2}, {"group", 3}, {"head", 4}},
          {grouped[0], grouped[1], grouped[2], {{"batch", "other", "heads", "head"}}},
          [=](auto a) {
            const dim<"block", 2> block;
            return in_order(
                nn::blocked_attention(a[0], a[1], a[2], attended, block) +
                nn::blocked_attention(a[0], a[3], sin(a[3]), {position, dim_ref{"other"}, head}, block, nn::causal{}));
          },
          [](auto a) {
            std::vector<double> both = attention_by_hand(a, 2, 5, 6, 2, 3, 4, everyone);
            auto sines = a[3];
            for (double& x : sines.data) x = std::sin(x);
            const std::vector<double> other = attention_by_hand(std::vector{a[0], a[3], sines}, 2, 5, 4, 2, 3, 4,
                                                                before);
            for (std::size_t i = 0; i < both.size(); ++i) both[i] += other[i];
            return both;
          }},
         {"a mask that captures",
          sizes,
          {grouped[0], grouped[1], grouped[2], {{"batch"}, element::i32, 5}},
          [=](auto a) {
            const value lengths = a[3];
            return in_order(nn::attention(a[0], a[1], a[2], attended, [&](const value&, const value& s) {
              return s <= broadcast(lengths, batch, position, source_);
            }));
          },
          [](auto a) {
            const std::vector<double> lengths = a[3].data;
            return attention_by_hand(a, 2, 5, 6, 2, 3, 4, [&](std::int64_t b, std::int64_t, std::int64_t s) {
              return static_cast<double>(s) <= lengths[static_cast<std::size_t>(b)];
            });
          }}},
        120);
}

// Chunks of a ring are parts of one sequence: the same numbers in memory as without them.
TEST(Attention, AroundARingIsThatOfTheWholeSequence) {
  const std::vector<argument> chunks{{{"batch", "ring", "position", "heads", "head"}},
                                     {{"batch", "ring", "source", "heads", "head"}},
                                     {{"batch", "ring", "source", "heads", "head"}}};
  const auto in_order = [](const value& x) { return ordered(x, {"batch", "ring", "position", "heads", "head"}); };
  std::vector<layer> layers;
  for (const std::int64_t ring : {1, 2, 3, 4}) {
    const std::vector<size_of_dim> sizes{{"batch", 2},  {"ring", ring}, {"position", 3},
                                         {"source", 3}, {"heads", 2},   {"head", 2}};
    layers.push_back({"ring", sizes, chunks,
                      [=](auto a) { return in_order(nn::ring_attention(a[0], a[1], a[2], attended, dim_ref{"ring"})); },
                      [=](auto a) { return attention_by_hand(a, 2, 3 * ring, 3 * ring, 2, 1, 2, everyone); }});
    layers.push_back({"ring, causal", sizes, chunks,
                      [=](auto a) {
                        return in_order(nn::ring_attention(a[0], a[1], a[2], attended, dim_ref{"ring"}, nn::causal{}));
                      },
                      [=](auto a) { return attention_by_hand(a, 2, 3 * ring, 3 * ring, 2, 1, 2, before); }});
  }
  check(layers, 120);
}

/// x as queries, keys and values of causal attention, in blocks or around a ring.
value attention_to_itself(const value& x, bool around) {
  const auto as_sources = [](const value& y) { return rename(y, position, source_); };
  if (around) return nn::ring_attention(x, as_sources(x), as_sources(sin(x)), attended, dim_ref{"ring"}, nn::causal{});
  return nn::blocked_attention(x, as_sources(x), as_sources(sin(x)), attended, dim<"block", 2>{}, nn::causal{});
}
struct itself {
  graph recorded;
  sizes at;

  itself(bool around, int derivatives) {
    mesh_value mesh;
    mesh.axes.push_back({"x", 2});
    recorder in(mesh);
    spec s;
    s.mesh = mesh;
    if (around) s.dims.push_back(placement(dim_ref{"ring"}));
    if (around) s.dims[0].axes.push_back("x");
    s.dims.push_back(placement(position));
    s.dims.push_back(placement(head));
    const value x = in.input(element::f64, s), one = in.constant(1, element::f64, {});
    const auto f = [&](const value& v) { return sum(cos(attention_to_itself(v, around))); };
    const auto slope = [&](const value& v) {
      const value g = vjp(f, v).second(one);
      return sum(g * g);
    };
    const auto [y, pullback] = vjp(slope, x);
    if (derivatives == 2) in.output(y);
    in.output(derivatives == 2 ? pullback(one) : vjp(f, x).second(one));
    recorded = in.take();
    at = sizes_for(recorded, std::array{named_size{"ring", 2}, named_size{"position", 4}, named_size{"source", 4},
                                        named_size{"head", 2}, named_size{"x", 2}});
  }
};

// The rule for the backward pass is made of operations that have derivatives.
TEST(Attention, HasSecondDerivatives) {
  for (const bool around : {false, true}) {
    const itself twice(around, 2);
    const graph& g = twice.recorded;
    ASSERT_TRUE(g.found.ok());
    host_array a(shape_of(g.nodes[g.inputs[0]].type, twice.at));
    for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = std::sin(1.7 * static_cast<double>(i));
    SCOPED_TRACE(around);
    differences::expect_gradient(g, twice.at, a);
  }
}
// The cotangents of 16-bit operands are added up in 16 bits, though the function computes in float.
TEST(Attention, OfNarrowNumbersMovesHalfAsMuch) {
  constexpr std::string_view axis = "x";
  constexpr dim_ref batch{"b", 8}, position{"p", 8}, source{"s", 8}, head{"h", 8};
  mesh_value mesh;
  mesh.axes.push_back({axis, 2});
  const auto bytes_of = [&](element e, dim_ref sharded) {
    const auto laid = [&](std::initializer_list<dim_ref> dims) {
      spec s;
      s.mesh = mesh;
      for (const dim_ref& d : dims) {
        s.dims.push_back(placement(d));
        if (d.name == sharded.name) s.dims.back().axes.push_back(axis);
      }
      return s;
    };
    recorder in(mesh);
    const spec queries = laid({batch, position, head}), keys = laid({batch, source, head}), scale = laid({head});
    const value q = in.input(e, queries), k = in.input(e, keys), v = in.input(e, keys), w = in.input(e, scale),
                g = in.input(e, queries);
    const auto f = [&](value a, value b, value c, value d) {
      return nn::rms_norm(nn::attention(a, b, c, nn::attention_dims{position, source, head}, nn::causal{}), d, head);
    };
    const auto [y, pullback] = vjp(f, q, k, v, w);
    const auto [dq, dk, dv, dw] = pullback(g);
    in.output(y, e, queries);
    in.output(dq, e, queries);
    in.output(dk, e, keys);
    in.output(dv, e, keys);
    in.output(dw, e, scale);
    const graph made = in.take();
    EXPECT_TRUE(made.found.ok()) << made.found.op;
    const sizes at = sizes_for(made);
    const program p = partition(made, at);
    std::vector<host_array> data;
    for (node_id i : made.inputs) {
      data.emplace_back(shape_of(made.nodes[i].type, at));
      // Numbers of 16 bits, which differ.
      for (std::size_t j = 0; j < data.back().data.size(); ++j)
        data.back().data[j] = static_cast<double>((j * 37 + data.size() * 11) % 16) / 8 - 1;
    }
    const simulated got = simulate(p, at, data);
    EXPECT_EQ(got.problem, "");
    const std::vector<host_array> wanted = evaluate(made, at, data);
    for (std::size_t r = 0; r < wanted.size(); ++r)
      for (std::size_t j = 0; j < wanted[r].data.size(); ++j)
        EXPECT_NEAR(got.results[r].data[j], wanted[r].data[j], 0.03 * (1 + std::abs(wanted[r].data[j]))) << r;
    return bytes(p, at);
  };
  for (const dim_ref& sharded : {batch, position, source}) {
    const std::int64_t narrow = bytes_of(element::bf16, sharded), wide = bytes_of(element::f32, sharded);
    // The sum over sources is one of floats between devices too.
    EXPECT_LE(sharded.name == source.name ? narrow : 2 * narrow, wide) << sharded.name;
    EXPECT_GT(narrow, 0) << sharded.name;
  }
}

// Of blocks and of turns nothing is kept but indices, and what each block's keys and values cause.
TEST(Attention, KeepsNothingOfBlocksAndTurns) {
  for (const bool around : {false, true}) {
    const itself once(around, 1);
    const program p = partition(once.recorded, once.at);
    ASSERT_TRUE(p.found.ok());
    const int many = once.recorded.find_dim(
                  around ? detail::names_by_dim<"turn ">[as_size(once.recorded.find_dim("ring"))].text() : "block"),
              each = once.recorded.find_dim("position");
    ASSERT_TRUE(many >= 0 && each >= 0);
    for (const buffer& b : p.buffers) {
      const bool kept = b.type.has(static_cast<dim_id>(many)) &&
                        (around ? b.type.rank > 1 : b.type.has(static_cast<dim_id>(each)));
      EXPECT_FALSE(kept) << to_string(b.type, b.where, p.dims, p.mesh);
    }
  }
}

TEST(Attention, TurnsPairsByTheirPositions) {
  const std::vector<size_of_dim> sizes{{"position", 5}, {"heads", 2}, {"head", 6}};
  const auto turned_by_hand = [](auto a) {
    std::vector<double> out(a[0].data.size());
    for (std::size_t p = 0; p < 5; ++p)
      for (std::size_t n = 0; n < 2; ++n)
        for (std::size_t i = 0; i < 3; ++i) {
          const std::size_t first = (p * 2 + n) * 6 + i, second = first + 3;
          const double angle = static_cast<double>(p) * std::pow(100.0, -static_cast<double>(i) / 3);
          out[first] = a[0].data[first] * std::cos(angle) - a[0].data[second] * std::sin(angle);
          out[second] = a[0].data[second] * std::cos(angle) + a[0].data[first] * std::sin(angle);
        }
    return out;
  };
  const auto turned = [](const value& x) {
    return ordered(nn::rotary(x, iota(x, position), head, 100), {"position", "heads", "head"});
  };
  check({{"rotary", sizes, {{{"position", "heads", "head"}}}, [=](auto a) { return turned(a[0]); }, turned_by_hand},
         // Dims of two extents in one function.
         {"rotary twice",
          sizes,
          {{{"position", "heads", "head"}}},
          [=](auto a) {
            const value once = turned(a[0]);
            return ordered(nn::rotary(once, iota(once, position), dim_ref{"heads"}, 100),
                           {"position", "heads", "head"});
          },
          [=](auto a) {
            std::vector<double> out = turned_by_hand(a);
            for (std::size_t p = 0; p < 5; ++p)
              for (std::size_t i = 0; i < 6; ++i) {
                const double x = out[p * 12 + i], y = out[p * 12 + 6 + i], angle = static_cast<double>(p);
                out[p * 12 + i] = x * std::cos(angle) - y * std::sin(angle);
                out[p * 12 + 6 + i] = y * std::cos(angle) + x * std::sin(angle);
              }
            return out;
          }}},
        40);
}

/// Grouped heads, turned by their positions, causal: x [position, embed], maps [embed, heads, group, head], [embed,
/// heads, head] twice, and back; then the biases of these maps, if there are any.
std::vector<double> self_attention_by_hand(std::span<const host_array> a) {
  constexpr std::size_t P = 6, E = 3, N = 2, G = 2, H = 2;
  const auto mapped = [&](std::size_t which, std::size_t columns, bool turns) {
    const host_array& w = a[which];
    std::vector<double> out(P * columns, 0);
    for (std::size_t p = 0; p < P; ++p) {
      for (std::size_t c = 0; a.size() > 5 && c < columns; ++c) out[p * columns + c] = a[which + 4].data[c];
      for (std::size_t e = 0; e < E; ++e)
        for (std::size_t c = 0; c < columns; ++c)
          out[p * columns + c] += a[0].data[p * E + e] * w.data[e * columns + c];
      const double angle = static_cast<double>(p);
      for (std::size_t c = 0; turns && c < columns; c += H) {
        const double x = out[p * columns + c], y = out[p * columns + c + 1];
        out[p * columns + c] = x * std::cos(angle) - y * std::sin(angle);
        out[p * columns + c + 1] = y * std::cos(angle) + x * std::sin(angle);
      }
    }
    return out;
  };
  std::vector<host_array> heads_of{a[0], a[0], a[0]};
  heads_of[0].data = mapped(1, N * G * H, true);
  heads_of[1].data = mapped(2, N * H, true);
  heads_of[2].data = mapped(3, N * H, false);
  const std::vector<double> mixed = attention_by_hand(heads_of, 1, P, P, N, G, H, before);
  std::vector<double> out(P * E, 0);
  for (std::size_t i = 0; a.size() > 5 && i < out.size(); ++i) out[i] = a[8].data[i % E];
  for (std::size_t p = 0; p < P; ++p)
    for (std::size_t c = 0; c < N * G * H; ++c)
      for (std::size_t e = 0; e < E; ++e) out[p * E + e] += mixed[p * N * G * H + c] * a[4].data[c * E + e];
  return out;
}
template <class How>
value attending_to_itself(std::span<const value> a, const How& how) {
  const nn::attention_weights<value, value, value> w{a[1], a[2], a[3], a[4]};
  return nn::self_attention(a[0], w, embed, attended,
                            nn::self_attention_options{how, nn::causal{}, [](const value& v) { return v; }, 100},
                            dim_ref{"heads"}, dim_ref{"group"});
}
value attending_with_biases(std::span<const value> a) {
  const nn::attention_weights w{nn::linear_weights{a[1], a[5]}, nn::linear_weights{a[2], a[6]},
                                nn::linear_weights{a[3], a[7]}, nn::linear_weights{a[4], a[8]}};
  return nn::self_attention(a[0], w, embed, attended,
                            nn::self_attention_options{nn::all_scores{}, nn::causal{}, [](const value& v) { return v; },
                                                       100},
                            dim_ref{"heads"}, dim_ref{"group"});
}
TEST(Attention, OfASequenceToItself) {
  const std::vector<size_of_dim> sizes{{"position", 6}, {"source", 6}, {"embed", 3},
                                       {"heads", 2},    {"group", 2},  {"head", 2}};
  const std::vector<argument> arguments{{{"position", "embed"}},
                                        {{"embed", "heads", "group", "head"}},
                                        {{"embed", "heads", "head"}},
                                        {{"embed", "heads", "head"}},
                                        {{"heads", "group", "head", "embed"}}};
  std::vector<argument> with_biases = arguments;
  for (const argument& bias : {argument{{"heads", "group", "head"}}, argument{{"heads", "head"}},
                               argument{{"heads", "head"}}, argument{{"embed"}}})
    with_biases.push_back(bias);
  std::vector<size_of_dim> cut_sizes = sizes;
  cut_sizes[0].extent = cut_sizes[1].extent = 2;
  cut_sizes.push_back({"ring", 3});
  std::vector<argument> cut = arguments;
  cut[0].dims = {"ring", "position", "embed"};
  const auto in_order = [](const value& x) { return ordered(x, {"position", "embed"}); };
  check({{"all scores", sizes, arguments, [=](auto a) { return in_order(attending_to_itself(a, nn::all_scores{})); },
          self_attention_by_hand},
         {"with biases", sizes, with_biases, [=](auto a) { return in_order(attending_with_biases(a)); },
          self_attention_by_hand},
         {"in blocks", sizes, arguments,
          [=](auto a) { return in_order(attending_to_itself(a, nn::in_blocks{dim<"blocks", 3>{}})); },
          self_attention_by_hand},
         {"around a ring", cut_sizes, cut,
          [](auto a) {
            return ordered(attending_to_itself(a, nn::around_ring{dim<"ring">{}}), {"ring", "position", "embed"});
          },
          self_attention_by_hand}},
        60);
}

TEST(Layers, AreTheirFormulas) {
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  check({{"rms_norm",
          {{"batch", 3}, {"embed", 4}},
          {{{"batch", "embed"}}, {{"embed"}}},
          [](auto a) { return nn::rms_norm(a[0], a[1], embed); },
          [](auto a) {
            std::vector<double> out = a[0].data;
            for (std::size_t b = 0; b < 3; ++b) {
              double square = 0;
              for (std::size_t e = 0; e < 4; ++e) square += out[b * 4 + e] * out[b * 4 + e] / 4;
              for (std::size_t e = 0; e < 4; ++e) out[b * 4 + e] *= a[1].data[e] / std::sqrt(square + 1e-6);
            }
            return out;
          }},
         {"feed_forward",
          {{"batch", 3}, {"embed", 4}, {"hidden", 5}},
          {{{"batch", "embed"}}, {{"embed", "hidden"}}, {{"hidden"}}, {{"hidden", "embed"}}, {{"embed"}}},
          [](auto a) {
            return nn::feed_forward(a[0], nn::linear_weights{a[1], a[2]}, nn::linear_weights{a[3], a[4]}, embed, hidden,
                                    [](const value& h) { return nn::gelu_exact(h); });
          },
          [](auto a) {
            std::vector<double> out;
            for (std::size_t b = 0; b < 3; ++b)
              for (std::size_t o = 0; o < 4; ++o) {
                double total = a[4].data[o];
                for (std::size_t h = 0; h < 5; ++h) {
                  double inner = a[2].data[h];
                  for (std::size_t e = 0; e < 4; ++e) inner += a[0].data[b * 4 + e] * a[1].data[e * 5 + h];
                  total += inner * 0.5 * (1 + std::erf(inner / std::sqrt(2.0))) * a[3].data[h * 4 + o];
                }
                out.push_back(total);
              }
            return out;
          }},
         {"gated_feed_forward",
          {{"batch", 3}, {"embed", 4}, {"hidden", 5}},
          {{{"batch", "embed"}}, {{"embed", "hidden"}}, {{"embed", "hidden"}}, {{"hidden", "embed"}}},
          [](auto a) {
            return nn::gated_feed_forward(a[0], a[1], a[2], a[3], embed, hidden,
                                          [](const value& h) { return nn::silu(h); });
          },
          [=](auto a) {
            std::vector<double> out;
            for (std::size_t b = 0; b < 3; ++b)
              for (std::size_t o = 0; o < 4; ++o) {
                double total = 0;
                for (std::size_t h = 0; h < 5; ++h) {
                  double gate = 0, up = 0;
                  for (std::size_t e = 0; e < 4; ++e)
                    gate += a[0].data[b * 4 + e] * a[1].data[e * 5 + h],
                        up += a[0].data[b * 4 + e] * a[2].data[e * 5 + h];
                  total += silu(gate) * up * a[3].data[h * 4 + o];
                }
                out.push_back(total);
              }
            return out;
          }},
         {"embedding",
          {{"batch", 3}, {"position", 4}, {"word", 7}, {"embed", 2}},
          {{{"word", "embed"}}, {{"batch", "position"}, element::i32, 7}},
          [](auto a) { return nn::embedding(a[0], a[1], word); },
          [](auto a) {
            std::vector<double> out;
            for (double id : a[1].data)
              for (std::size_t e = 0; e < 2; ++e) out.push_back(a[0].data[static_cast<std::size_t>(id) * 2 + e]);
            return out;
          }},
         {"cross_entropy",
          {{"batch", 3}, {"word", 7}},
          {{{"batch", "word"}}, {{"batch"}, element::i32, 7}},
          [](auto a) { return nn::cross_entropy(a[0], a[1], word, 0.1); },
          [](auto a) {
            std::vector<double> out;
            for (std::size_t b = 0; b < 3; ++b) {
              double total = 0, all = 0;
              for (std::size_t w = 0; w < 7; ++w)
                total += std::exp(a[0].data[b * 7 + w]), all += a[0].data[b * 7 + w] / 7;
              out.push_back(std::log(total) - 0.9 * a[0].data[b * 7 + static_cast<std::size_t>(a[1].data[b])] -
                            0.1 * all);
            }
            return out;
          }}},
        200);
}

// Stage after stage, layer by layer, as if there were no pipeline.
std::vector<double> stages_by_hand(std::span<const host_array> a, std::size_t batches, std::size_t each,
                                   std::size_t layers) {
  std::vector<double> out = a[0].data;
  for (std::size_t row = 0; row < batches * each; ++row)
    for (std::size_t l = 0; l < layers; ++l) {
      double next[2];
      for (std::size_t o = 0; o < 2; ++o) {
        double inner = 0;
        for (std::size_t e = 0; e < 2; ++e) inner += out[row * 2 + e] * a[1].data[(l * 2 + e) * 2 + o];
        next[o] = out[row * 2 + o] + std::tanh(inner);
      }
      out[row * 2] = next[0];
      out[row * 2 + 1] = next[1];
    }
  return out;
}
TEST(Layers, OfNarrowNumbersScaleByNumbersToo) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 1});
  spec line;
  line.mesh = mesh;
  line.dims.push_back(placement(dim_ref{"h", 8}));
  recorder in(mesh);
  const value x = in.input(element::bf16, line);
  const value y = layer_norm(x, dim_ref{"h"}, 2.0, 1.0), z = nn::rms_norm(x, 2.0, dim_ref{"h"});
  EXPECT_TRUE(y.ok() && z.ok());
  EXPECT_EQ(in.at(y).type.element, element::bf16);
  EXPECT_EQ(in.at(z).type.element, element::bf16);
}
TEST(Pipelines, ApplyAllStages) {
  const auto stage = [](const value& h, const std::array<value, 1>& w) {
    return h + rename(tanh(dot(h, w[0], embed)), hidden, embed);
  };
  std::vector<layer> layers;
  for (const auto& [stages, microbatches] : {std::pair{1, 3}, {2, 1}, {3, 4}, {4, 6}})
    layers.push_back(
        {"in order",
         {{"stage", stages}, {"microbatch", microbatches}, {"batch", 2}, {"embed", 2}, {"hidden", 2}},
         {{{"microbatch", "batch", "embed"}}, {{"stage", "embed", "hidden"}}},
         [=](auto a) { return nn::pipeline(a[0], std::array{a[1]}, {dim_ref{"stage"}, dim_ref{"microbatch"}}, stage); },
         [stages = static_cast<std::size_t>(stages), microbatches = static_cast<std::size_t>(microbatches)](auto a) {
           return stages_by_hand(a, microbatches, 2, stages);
         }});
  for (const auto& [stages, microbatches] : {std::pair{1, 2}, {2, 4}, {3, 3}})
    layers.push_back(
        {"circular",
         {{"stage", stages}, {"microbatch", microbatches}, {"batch", 2}, {"embed", 2}, {"hidden", 2}, {"round", 3}},
         {{{"microbatch", "batch", "embed"}}, {{"round", "stage", "embed", "hidden"}}},
         [=](auto a) {
           return nn::pipeline(a[0], std::array{a[1]}, {dim_ref{"stage"}, dim_ref{"microbatch"}, 3}, stage);
         },
         [stages = static_cast<std::size_t>(stages), microbatches = static_cast<std::size_t>(microbatches)](auto a) {
           return stages_by_hand(a, microbatches, 2, 3 * stages);
         }});
  check(layers, 140);
}

// Of several rules for one dim the first holds, for types and for values.
TEST(LayoutRules, TheFirstRuleOfADimHolds) {
  constexpr axis<"x"> x_axis;
  constexpr axis<"y"> y_axis;
  constexpr dim<"embed"> columns;
  constexpr cleave::mesh both{x_axis, y_axis};
  constexpr nn::layout_rules rules{both, columns / x_axis, columns / y_axis};
  constexpr spec asked = decltype(rules(columns)){};
  ASSERT_EQ(asked.dims[0].axes.size(), 1);
  EXPECT_EQ(asked.dims[0].axes[0], "x");
  recorder in(asked.mesh);
  spec s;
  s.mesh = asked.mesh;
  s.dims.push_back(placement(columns));
  const value pinned = constrain(in.input(element::f64, s), rules);
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(in.at(pinned).pin[0].size(), 1);
  EXPECT_EQ(in.at(pinned).pin[0][0], 0);
}

TEST(Blocks, AreKeptOrComputedAgain) {
  const auto apply = [](const value& h, const std::array<value, 1>& w) {
    return h + rename(tanh(dot(h, w[0], embed)), hidden, embed);
  };
  const std::vector<size_of_dim> sizes{{"layer", 3}, {"batch", 2}, {"embed", 2}, {"hidden", 2}};
  const std::vector<argument> arguments{{{"batch", "embed"}}, {{"layer", "embed", "hidden"}}};
  const auto by_hand = [](auto a) { return stages_by_hand(a, 1, 2, 3); };
  constexpr axis<"x"> some;
  constexpr nn::model_layout kept{nn::layout_rules{cleave::mesh{some}}, nn::layout_rules{cleave::mesh{some}}};
  constexpr auto again = kept.scheduled(nn::layer_by_layer<true>{});
  check({{"kept", sizes, arguments,
          [=](auto a) { return nn::blocks(kept, dim_ref{"layer"}, a[0], std::array{a[1]}, apply); }, by_hand},
         {"computed again", sizes, arguments,
          [=](auto a) { return nn::blocks(again, dim_ref{"layer"}, a[0], std::array{a[1]}, apply); }, by_hand}},
        40);
}

// The share of tokens that like an expert best, times how much all like it (Fedus et al. 2021, equation 4).
TEST(MixtureOfExperts, SaysHowUnevenlyExpertsAreUsed) {
  const layer balance{
      "load balancing",
      {{"batch", 3}, {"token", 6}, {"expert", 4}, {"embed", 2}},
      {{{"batch", "token", "embed"}}, {{"embed", "expert"}}},
      [](auto a) {
        return nn::mixture_of_experts(
                   a[0], a[1], {dim_ref{"token"}, embed, dim_ref{"expert"}, dim_ref{"capacity", 2}},
                   nn::experts_per_token::two, [](const value& sent) { return sent; }, [](const value& v) { return v; })
            .load_balancing_loss;
      },
      [](auto a) {
        double total = 0;
        for (std::size_t b = 0; b < 3; ++b) {
          std::array<double, 4> share{}, belief{};
          for (std::size_t t = 0; t < 6; ++t) {
            std::array<double, 4> likes{};
            double sum = 0;
            for (std::size_t x = 0; x < 4; ++x) {
              for (std::size_t e = 0; e < 2; ++e) likes[x] += a[0].data[(b * 6 + t) * 2 + e] * a[1].data[e * 4 + x];
              sum += likes[x] = std::exp(likes[x]);
            }
            share[static_cast<std::size_t>(std::max_element(likes.begin(), likes.end()) - likes.begin())] += 1.0 / 6;
            for (std::size_t x = 0; x < 4; ++x) belief[x] += likes[x] / sum / 6;
          }
          for (std::size_t x = 0; x < 4; ++x) total += 4 * share[x] * belief[x] / 3;
        }
        return std::vector<double>{total};
      }};
  check({balance}, 40);
}

TEST(MixtureOfExperts, SendsEachTokenToTheExpertsThatItLikes) {
  // With scores in thousands the softmax is saturated: all experts but the first have the probability 0.
  for (const auto& [count, scale] :
       {std::pair(1u, 1.0), std::pair(2u, 1.0), std::pair(2u, 5000.0), std::pair(3u, 1.0), std::pair(3u, 5000.0)}) {
    const std::vector<size_of_dim> sizes{{"batch", 3}, {"token", 6}, {"expert", 4}, {"embed", 2}, {"hidden", 3}};
    const layer experts{"experts",
                        sizes,
                        {{{"batch", "token", "embed"}},
                         {{"embed", "expert"}},
                         {{"expert", "embed", "hidden"}},
                         {{"expert", "hidden", "embed"}}},
                        [count = count, scale = scale](auto a) {
                          const nn::moe_dims d{dim_ref{"token"}, embed, dim_ref{"expert"}, dim_ref{"capacity", 2}};
                          const auto apply = [&](const value& sent) {
                            return dot(tanh(dot(sent, a[2], embed)), a[3], hidden);
                          };
                          const auto pin = [](const value& v) { return v; };
                          const value router = a[1] * scale;
                          if (count == 3)
                            return nn::mixture_of_experts(a[0], router, d, dim_ref{"choice", 3}, apply, pin).mixed;
                          const auto how = count == 2 ? nn::experts_per_token::two : nn::experts_per_token::one;
                          return nn::mixture_of_experts(a[0], router, d, how, apply, pin).mixed;
                        },
                        [count = count, scale = scale](auto a) {
                          std::vector<double> out(a[0].data.size(), 0);
                          for (std::size_t b = 0; b < 3; ++b) {
                            std::array<std::array<std::size_t, 3>, 6> chosen{};
                            std::array<std::array<double, 3>, 6> gate{};
                            for (std::size_t t = 0; t < 6; ++t) {
                              std::array<double, 4> scores{};
                              for (std::size_t x = 0; x < 4; ++x)
                                for (std::size_t e = 0; e < 2; ++e)
                                  scores[x] += a[0].data[(b * 6 + t) * 2 + e] * a[1].data[e * 4 + x] * scale;
                              double total = 0;
                              const double most = *std::max_element(scores.begin(), scores.end());
                              for (const double score : scores) total += std::exp(score - most);
                              for (std::size_t c = 0; c < count; ++c) {
                                const auto best = std::max_element(scores.begin(), scores.end());
                                chosen[t][c] = static_cast<std::size_t>(best - scores.begin());
                                gate[t][c] = std::exp(*best - most) / total;
                                *best = -std::numeric_limits<double>::infinity();
                              }
                              const double all = gate[t][0] + gate[t][1] + gate[t][2];
                              for (double& g : gate[t]) g /= count > 1 ? all : 1;
                            }
                            std::array<int, 4> used{};
                            for (std::size_t c = 0; c < count; ++c)
                              for (std::size_t t = 0; t < 6; ++t) {
                                const std::size_t x = chosen[t][c];
                                if (used[x]++ >= 2) continue;
                                for (std::size_t h = 0; h < 3; ++h) {
                                  double inner = 0;
                                  for (std::size_t e = 0; e < 2; ++e)
                                    inner += a[0].data[(b * 6 + t) * 2 + e] * a[2].data[(x * 2 + e) * 3 + h];
                                  for (std::size_t e = 0; e < 2; ++e)
                                    out[(b * 6 + t) * 2 + e] += gate[t][c] * std::tanh(inner) *
                                                                a[3].data[(x * 3 + h) * 2 + e];
                                }
                              }
                          }
                          return out;
                        }};
    check({experts}, 60);
  }
}

} // namespace CLEAVE_SOURCE
