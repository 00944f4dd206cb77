// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check_function.hpp"

#include <cleave/nn/blocks.hpp>
#include <cleave/nn/mixture_of_experts.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/nn/self_attention.hpp>

// Layers whose values travel in loops or by index, and their gradients, on real ranks: what the plain evaluator gives.
// Whole models: tests/reference.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source_dim;
inline constexpr cleave::dim<"ring"> ring;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"expert"> expert;
inline constexpr cleave::dim<"capacity", 3> capacity;
inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"microbatch"> microbatch;
inline constexpr cleave::dim<"round", 2> round_dim;
inline constexpr cleave::dim<"block", 3> block;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
std::vector<cleave::grid> grids() { return support::grids(mesh); }

constexpr auto around = cleave::value_and_grad<0, 1, 2>(cleave::function([](auto q, auto k, auto v) {
  const auto mixed = cleave::nn::ring_attention(q, k, v, {position, source_dim, head}, ring, cleave::nn::causal{});
  return sum(sin(mixed));
}));
void check_ring() {
  for (const cleave::grid& g : grids()) {
    f64<mesh(batch / ax, ring / ay, position, heads, head)> q(g, {3, 4, 2, 2, 3}), dq(g, {3, 4, 2, 2, 3});
    f64<mesh(batch / ax, ring / ay, source_dim, heads, head)> k(g, {3, 4, 2, 2, 3}), v(g, {3, 4, 2, 2, 3}),
        dk(g, {3, 4, 2, 2, 3}), dv(g, {3, 4, 2, 2, 3});
    f64<mesh()> loss(g, {});
    support::fill(q, 0.1);
    support::fill(k, 0.9);
    support::fill(v, 1.7);
    support::check(around, std::tie(loss, dq, dk, dv), q, k, v);
  }
}
TEST(transformers, attention_around_a_ring) { check_ring(); }
// What is under way while others compute has host memory of its own.
TEST(transformers, attention_around_a_ring_through_the_host) {
  const support::setting staged(cleave::comm::gpu_aware_mode(), cleave::comm::gpu_aware::never);
  check_ring();
}

// As layers of a loop that are computed again in the backward pass.
constexpr auto layers_around = cleave::value_and_grad<0, 1>(cleave::function([](auto x, auto w) {
  const auto one = [](const cleave::value& h, const cleave::value& u) {
    const cleave::value k = rename(h * u, position, source_dim);
    return h + cleave::nn::ring_attention(h, k, tanh(k), {position, source_dim, head}, ring, cleave::nn::causal{});
  };
  return sum(sin(scan(layer, cleave::value(x), cleave::value(w), remat(cleave::function(one)))));
}));
TEST(transformers, recomputed_layers_around_a_ring) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(ring / ay, position, heads / ax, head)> x(g, {4, 2, 2, 3}), dx(g, {4, 2, 2, 3});
    f64<mesh(layer, head)> w(g, {3, 3}), dw(g, {3, 3});
    f64<mesh()> loss(g, {});
    support::fill(x, 0.1);
    support::fill(w, 0.9);
    support::check(layers_around, std::tie(loss, dx, dw), x, w);
  }
}

constexpr auto in_blocks = cleave::value_and_grad<0, 1, 2>(cleave::function([](auto q, auto k, auto v) {
  return sum(sin(cleave::nn::blocked_attention(q, k, v, {position, source_dim, head}, block, cleave::nn::causal{})));
}));
TEST(transformers, attention_in_blocks) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(batch, position / ax, heads / ay, head)> q(g, {2, 5, 3, 2}), dq(g, {2, 5, 3, 2});
    f64<mesh(batch, source_dim, heads / ay, head)> k(g, {2, 6, 3, 2}), v(g, {2, 6, 3, 2}), dk(g, {2, 6, 3, 2}),
        dv(g, {2, 6, 3, 2});
    f64<mesh()> loss(g, {});
    support::fill(q, 0.3);
    support::fill(k, 0.7);
    support::fill(v, 1.1);
    support::check(in_blocks, std::tie(loss, dq, dk, dv), q, k, v);
  }
}

// A position that sees no source has the result 0, whatever the kind of attention is, and no part in any gradient. Nor
// has a source that no position sees.
struct far_ahead {
  constexpr cleave::value operator()(const cleave::value& at, const cleave::value& source) const {
    return source >= at + 3;
  }
};
inline constexpr cleave::nn::attention_dims along{position, source_dim, head};
template <int Kind>
constexpr auto ahead = cleave::value_and_grad<0, 1, 2>(cleave::function([](auto q, auto k, auto v) {
  const auto mixed = [&] {
    if constexpr (Kind == 0) return cleave::nn::attention(q, k, v, along, far_ahead{});
    else if constexpr (Kind == 1) return cleave::nn::blocked_attention(q, k, v, along, block, far_ahead{});
    else return cleave::nn::ring_attention(q, k, v, along, ring, far_ahead{});
  };
  return sum(sin(mixed() + 1.0));
}));
template <int Kind, class Queries, class Sources>
void check_positions_without_sources(const cleave::grid& g, const std::vector<std::int64_t>& sizes) {
  Queries q(g, sizes), dq(g, sizes);
  Sources k(g, sizes), v(g, sizes), dk(g, sizes), dv(g, sizes);
  f64<mesh()> loss(g, {});
  support::fill(q, 0.3);
  support::fill(k, 0.7);
  support::fill(v, 1.1);
  ahead<Kind>(q, k, v).into(loss, dq, dk, dv);
  const auto queries = q.to_global(), keys = k.to_global(), values = v.to_global();
  double wanted = 0;
  for (std::size_t p = 0; p < 6; ++p) {
    double total = 0, mixed[2] = {0, 0};
    for (std::size_t s = p + 3; s < 6; ++s) {
      const double weight = std::exp((queries[2 * p] * keys[2 * s] + queries[2 * p + 1] * keys[2 * s + 1]) /
                                     std::sqrt(2.0));
      total += weight;
      for (std::size_t h = 0; h < 2; ++h) mixed[h] += weight * values[2 * s + h];
    }
    for (const double m : mixed) wanted += std::sin((total == 0 ? 0 : m / total) + 1);
  }
  EXPECT_NEAR(loss.item(), wanted, 1e-12) << Kind;
  const auto of_queries = dq.to_global(), of_keys = dk.to_global(), of_values = dv.to_global();
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(of_queries[6 + i], 0) << Kind;
    EXPECT_EQ(of_keys[i], 0) << Kind;
    EXPECT_EQ(of_values[i], 0) << Kind;
    EXPECT_TRUE(std::isfinite(of_queries[i]) && std::isfinite(of_keys[6 + i]) && of_values[6 + i] != 0) << Kind;
  }
}
TEST(transformers, positions_without_sources) {
  for (const cleave::grid& g : grids()) {
    using Queries = f64<mesh(position / ax, head)>;
    using Sources = f64<mesh(source_dim / ay, head)>;
    check_positions_without_sources<0, Queries, Sources>(g, {6, 2});
    check_positions_without_sources<1, Queries, Sources>(g, {6, 2});
    check_positions_without_sources<2, f64<mesh(ring / ay, position, head)>, f64<mesh(ring / ay, source_dim, head)>>(
        g, {3, 2, 2});
  }
}

// Many blocks of 16 bits: what is added up from block to block stays exact enough, which it would not in 16 bits.
inline constexpr cleave::dim<"many blocks", 1024> many_blocks;
constexpr auto in_many_blocks = cleave::value_and_grad<0, 2>(cleave::function([](auto q, auto k, auto v) {
  return sum(cleave::cast<float>(cleave::nn::blocked_attention(q, k, v, {position, source_dim, head}, many_blocks)));
}));
TEST(transformers, attention_of_16_bits_in_many_blocks) {
  using Queries = cleave::tensor<cleave::bfloat16, mesh(position / ax, head)>;
  using Sources = cleave::tensor<cleave::bfloat16, mesh(source_dim, head)>;
  for (const cleave::grid& g : grids()) {
    Queries q(g, {4, 2}), dq(g, {4, 2});
    Sources k(g, {2048, 2}), v(g, {2048, 2}), dv(g, {2048, 2});
    cleave::tensor<float, mesh()> total(g, {});
    k.fill_by([](const auto& at) { return cleave::bfloat16(at[0] < 1024 ? 1.0F : -1.0F); });
    v.fill_by([](const auto& at) { return cleave::bfloat16(at[0] < 1024 ? 0.0F : 1.0F); });
    in_many_blocks(q, k, v).into(total, dq, dv);
    // All sources weigh the same, so each result is 1/2.
    EXPECT_NEAR(total.item(), 4, 0.02);
    for (const auto x : dv.to_global()) EXPECT_NEAR(static_cast<float>(x), 4.0 / 2048, 1e-5);
    for (const auto x : dq.to_global()) EXPECT_NEAR(static_cast<float>(x), -std::sqrt(0.5), 0.007);
  }
}

template <auto How>
constexpr auto experts =
    cleave::value_and_grad<0, 1, 2, 3>(cleave::function([](auto x, auto router, auto up, auto down) {
      const auto moe = cleave::nn::mixture_of_experts(
          x, router, {position, embed, expert, capacity}, How,
          [&](const cleave::value& sent) { return dot(tanh(dot(sent, up, embed)), down, hidden); },
          [](const cleave::value& v) { return constrain(v, mesh(expert / ay, batch / ax)); });
      return sum(moe.mixed * moe.mixed) + 0.1 * moe.load_balancing_loss;
    }));
TEST(transformers, mixture_of_experts) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(batch / ax / ay, position, embed)> x(g, {8, 7, 3}), dx(g, {8, 7, 3});
    f64<mesh(embed, expert)> router(g, {3, 5}), drouter(g, {3, 5});
    f64<mesh(expert / ay, embed, hidden)> up(g, {5, 3, 4}), dup(g, {5, 3, 4});
    f64<mesh(expert / ay, hidden, embed)> down(g, {5, 4, 3}), ddown(g, {5, 4, 3});
    f64<mesh()> loss(g, {});
    support::fill(x, 0.2);
    support::fill(router, 0.6);
    support::fill(up, 1.3);
    support::fill(down, 2.1);
    support::check(experts<cleave::nn::experts_per_token::two>, std::tie(loss, dx, drouter, dup, ddown), x, router, up,
                   down);
    support::check(experts<cleave::dim<"choice", 3>{}>, std::tie(loss, dx, drouter, dup, ddown), x, router, up, down);
  }
}

// Where the softmax is saturated, the probability of every other expert is 0, in 16 bits already from 17 on.
constexpr cleave::function second_choices([](auto x, auto router, auto factor) {
  return cleave::nn::mixture_of_experts(
             x, router, {position, embed, expert, capacity}, cleave::nn::experts_per_token::two,
             [&](const cleave::value& s) { return s * broadcast(factor, expert, capacity, batch, embed); },
             [](const cleave::value& v) { return v; })
      .mixed;
});
template <class T>
void check_second_choices() {
  for (const cleave::grid& g : grids()) {
    cleave::tensor_in<T, mesh(batch / ax, position, embed)> x(g, {1, 3, 2}), y(g, {1, 3, 2});
    cleave::tensor_in<T, mesh(embed, expert / ay)> router(g, {2, 3});
    cleave::tensor_in<T, mesh(expert)> factor(g, {3});
    const float scores[2][3] = {{300, 0, 20}, {4, 5, -100}}, factors[3] = {8, 16, 1024};
    x.fill_by([](const auto& at) { return T(at[1] % 2 == at[2] ? 1.0F : 0.0F); });
    router.fill_by([&](const auto& at) { return T(scores[at[0]][at[1]]); });
    factor.fill_by([&](const auto& at) { return T(factors[at[0]]); });
    y = second_choices(x, router, factor);
    // Expert 0 has three slots, for the first choices of tokens 0 and 2 and the second one of token 1.
    const double second = 1 / (1 + std::exp(1.0));
    const std::vector<double> want{8, 0, 0, 8 * second + 16 * (1 - second), 8, 0};
    const auto got = y.to_global();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(static_cast<double>(static_cast<float>(got[i])), want[i], 0.01) << i;
  }
}
TEST(transformers, second_experts_are_others) {
  check_second_choices<float>();
  check_second_choices<cleave::half>();
}

// Tokens without a second expert, since all other scores are minus infinity, leave its slots to the others.
TEST(transformers, no_second_expert_takes_no_slot) {
  for (const cleave::grid& g : grids()) {
    cleave::tensor_in<float, mesh(batch / ax, position, embed)> x(g, {1, 4, 2}), y(g, {1, 4, 2});
    cleave::tensor_in<float, mesh(embed, expert / ay)> router(g, {2, 3});
    cleave::tensor_in<float, mesh(expert)> factor(g, {3});
    const float scores[2][3] = {{0, 0.5F, 1}, {0, -1e30F, -1e30F}}, factors[3] = {8, 16, 1024};
    x.fill_by([](const auto& at) { return at[1] < 3 ? (at[2] == 1 ? 1e10F : 0) : (at[2] == 0 ? 1.0F : 0); });
    router.fill_by([&](const auto& at) { return scores[at[0]][at[1]]; });
    factor.fill_by([&](const auto& at) { return factors[at[0]]; });
    y = second_choices(x, router, factor);
    const double second = 1 / (1 + std::exp(0.5));
    const std::vector<double> want{0, 8e10, 0, 8e10, 0, 8e10, 16 * second + 1024 * (1 - second), 0};
    const auto got = y.to_global();
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6 * want[i]) << i;
  }
}

constexpr auto circular = cleave::value_and_grad<0, 1>(cleave::function([](auto x, auto w) {
  const auto f = [](const cleave::value& h, const std::array<cleave::value, 1>& p) {
    return h + rename(tanh(dot(h, p[0], embed)), hidden, embed);
  };
  const auto pin = [](const cleave::value& v) { return constrain(v, mesh(stage / ay)); };
  const auto y = cleave::nn::pipeline(x, std::array{cleave::value(w)}, {stage, microbatch, 2, round_dim}, f, pin);
  return sum(y * y);
}));
TEST(transformers, circular_pipeline) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(microbatch, batch / ax, embed)> x(g, {4, 3, 2}), dx(g, {4, 3, 2});
    f64<mesh(round_dim, stage / ay, embed, hidden)> w(g, {2, 2, 2, 2}), dw(g, {2, 2, 2, 2});
    f64<mesh()> loss(g, {});
    support::fill(x, 0.4);
    support::fill(w, 0.8);
    support::check(circular, std::tie(loss, dx, dw), x, w);
  }
}

// The same from a table, with layers that are computed again in the backward pass.
using again = cleave::nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, 1, cleave::dim<"round", 1>, true>;
inline constexpr auto in_stages = cleave::nn::model_layout{cleave::nn::layout_rules{mesh},
                                                           cleave::nn::layout_rules{mesh, stage / ay, batch / ax}}
                                      .scheduled(again{});
constexpr auto staged = cleave::value_and_grad<0, 1>(cleave::function([](auto x, auto w) {
  const auto f = [](const cleave::value& h, const std::array<cleave::value, 1>& p) {
    return h + rename(tanh(dot(h, p[0], embed)), hidden, embed);
  };
  const auto y = cleave::nn::blocks(in_stages, layer, x, std::array{cleave::value(w)}, f);
  return sum(y * y);
}));
TEST(transformers, recomputed_layers_in_stages) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(microbatch, batch / ax, embed)> x(g, {4, 3, 2}), dx(g, {4, 3, 2});
    f64<mesh(layer, stage / ay, embed, hidden)> w(g, {2, 3, 2, 2}), dw(g, {2, 3, 2, 2});
    f64<mesh()> loss(g, {});
    support::fill(x, 0.4);
    support::fill(w, 0.8);
    support::check(staged, std::tie(loss, dx, dw), x, w);
  }
}

// Layers of a Transformer, in the stages of a pipeline along one axis, heads and hidden units along the other.
inline constexpr auto nested = cleave::nn::model_layout{cleave::nn::layout_rules{mesh},
                                                        cleave::nn::layout_rules{mesh, stage / ay, heads / ax,
                                                                                 hidden / ax}}
                                   .scheduled(cleave::nn::pipelined{stage, microbatch});
constexpr auto nested_loss = cleave::value_and_grad<0, 1, 4, 5>(
    cleave::function([](auto x, auto query, auto key, auto value_map, auto out, auto up, auto down) {
      using cleave::value;
      const auto f = [](const value& h, const std::array<value, 6>& w) {
        const auto pin = [](const value& v) { return constrain(v, nested.activations); };
        const cleave::nn::attention_weights<value, value, value> maps{w[0], w[1], w[2], w[3]};
        const value mixed = h + cleave::nn::self_attention(h, maps, embed, {position, source_dim, head},
                                                           cleave::nn::self_attention_options{cleave::nn::all_scores{},
                                                                                              cleave::nn::causal{}, pin,
                                                                                              100},
                                                           heads);
        return mixed + dot(tanh(pin(dot(mixed, w[4], embed))), w[5], hidden);
      };
      const auto y = cleave::nn::blocks(nested, layer, x, std::array<value, 6>{query, key, value_map, out, up, down},
                                        f);
      return sum(sin(y));
    }));
TEST(transformers, layers_in_stages_divided_by_heads) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(microbatch, batch, position, embed)> x(g, {3, 2, 3, 4}), dx(g, {3, 2, 3, 4});
    f64<mesh(layer, stage / ay, embed, heads / ax, head)> query(g, {2, 2, 4, 2, 2}), key(g, {2, 2, 4, 2, 2}),
        values(g, {2, 2, 4, 2, 2}), dquery(g, {2, 2, 4, 2, 2});
    f64<mesh(layer, stage / ay, heads / ax, head, embed)> out(g, {2, 2, 2, 2, 4}), dout(g, {2, 2, 2, 2, 4});
    f64<mesh(layer, stage / ay, embed, hidden / ax)> up(g, {2, 2, 4, 5}), dup(g, {2, 2, 4, 5});
    f64<mesh(layer, stage / ay, hidden / ax, embed)> down(g, {2, 2, 5, 4});
    f64<mesh()> loss(g, {});
    support::fill(x, 0.4);
    double phase = 0;
    const auto draw = [&](auto&... t) { (support::fill(t, phase += 0.7), ...); };
    draw(query, key, values, out, up, down);
    support::check(nested_loss, std::tie(loss, dx, dquery, dout, dup), x, query, key, values, out, up, down);
  }
}

// In a circular schedule microbatches are a multiple of stages: all ranks say so before anything moves.
TEST(transformers, microbatches_that_do_not_fill_the_rounds) {
  for (const cleave::grid& g : grids()) {
    f64<mesh(microbatch, batch / ax, embed)> x(g, {3, 3, 2}), dx(g, {3, 3, 2});
    f64<mesh(round_dim, stage / ay, embed, hidden)> w(g, {2, 2, 2, 2}), dw(g, {2, 2, 2, 2});
    f64<mesh()> loss(g, {});
    try {
      circular(x, w).into(loss, dx, dw);
      ADD_FAILURE() << "three microbatches for two stages";
    } catch (const cleave::shape_error& e) {
      EXPECT_STREQ(e.what(),
                   "cleave: dim 'microbatch' has extent 3, which is no multiple of the 2 of dim 'stage', into which it "
                   "is split");
    }
  }
}

TEST(transformers, sizes_that_are_missing) {
  using Pair = std::array<f64<mesh(expert, capacity, embed)>, 2>;
  try {
    static_cast<void>(cleave::nn::make_parameters<Pair>(grids().front(), {expert = 2}));
    ADD_FAILURE() << "no embed";
  } catch (const cleave::shape_error& e) {
    EXPECT_STREQ(e.what(), "cleave: no size was given for dim 'embed'");
  }
}

TEST(transformers, layers_that_do_not_fill_the_stages) {
  EXPECT_EQ(cleave::nn::layers_of_a_stage(6, 3), 2);
  try {
    cleave::nn::layers_of_a_stage(7, 3);
    ADD_FAILURE() << "seven layers in three stages";
  } catch (const cleave::shape_error& e) {
    EXPECT_STREQ(e.what(), "cleave: 7 layers cannot be divided into 3 stages of equal length");
  }
}

} // namespace CLEAVE_SOURCE
