// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the layouts of a Transformer move: the published schemes come out of their tables, to the byte.
#include "../../examples/decoder.hpp"

#include <cleave/nn/mixture_of_experts.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/study/explain_plan.hpp>

namespace {

using namespace decoder;
using cleave::kind;

// Sizes of a large model, for which plans are chosen.
template <int Batch, class F>
constexpr auto planned(const F& f) {
  return cleave::with(f, cleave::expect<batch, Batch>{}, cleave::expect<position, 2048>{},
                      cleave::expect<source, 2048>{}, cleave::expect<embed, 8192>{}, cleave::expect<heads, 64>{},
                      cleave::expect<head, 128>{}, cleave::expect<hidden, 32768>{}, cleave::expect<layer, 48>{},
                      cleave::expect<vocabulary, 32768>{}, cleave::expect<microbatch, 32>{}, cleave::expect<stage, 8>{},
                      cleave::expect<ring, 8>{}, cleave::expect<data, 4>{}, cleave::expect<model, 8>{});
}

template <auto Layout>
using layers_of = typename parameters<Layout.parameters>::template blocks<cleave::abstract>;
template <auto Layout>
using stream_of = cleave::abstract<float, Layout.activations(batch, position, embed)>;
template <auto Layout>
using model_of = typename parameters<Layout.parameters>::template in<cleave::abstract>;
template <auto Layout>
using words_of = cleave::abstract<int, Layout.activations(batch, position)>;
using Scalar = cleave::abstract<float, mesh()>;

/// The layers alone: from the residual stream to the residual stream.
template <auto Layout>
struct layers_body {
  template <class X, class W>
  constexpr auto operator()(const X& x, const W& w) const {
    return decoder::layers<Layout>(x, w);
  }
};
template <auto Layout>
constexpr auto forward = cleave::plan<stream_of<Layout>(stream_of<Layout>, layers_of<Layout>)>(
    planned<8>(cleave::function(layers_body<Layout>{})));

// Megatron (Shoeybi et al. 2019): two all-reduces a layer.
static_assert(forward<tensor_parallel>.count(kind::all_reduce) == 2 && forward<tensor_parallel>.collectives() == 2);
static_assert(forward<tensor_parallel>.bytes() == 48 * 2 * (2 * (2LL * 2048 * 8192 * 4) * 7 / 8));

// With the sequence sharded in between (Korthikanti et al. 2022) each becomes a reduce-scatter and an all-gather: the
// same bytes.
static_assert(forward<sequence_parallel>.count(kind::reduce_scatter) == 2 &&
              forward<sequence_parallel>.count(kind::all_gather) == 2);
static_assert(forward<sequence_parallel>.collectives() == 4 &&
              forward<sequence_parallel>.bytes() == forward<tensor_parallel>.bytes());

// A pipeline: one exchange a tick, with the next stage, of one microbatch; and one that brings the results out of the
// last one.
static_assert(forward<pipeline_parallel>.collectives() == 2 && forward<pipeline_parallel>.count(kind::exchange) == 2);
static_assert(forward<pipeline_parallel>.bytes() ==
              (32 + 8 - 1) * (2LL * 2048 * 8192 * 4) + 32 * (2LL * 2048 * 8192 * 4));

// A ring (Liu et al. 2023): keys and values are handed on 7 times a layer, in one message, as many bytes as gathering
// them.
static_assert(forward<ring_attention>.collectives() == 1 && forward<ring_attention>.count(kind::exchange) == 1);
constexpr int in_flight = [] {
  int count = 0;
  for (const cleave::step& s : decltype(forward<ring_attention>)::plan_type::steps) count += s.in_flight ? 1 : 0;
  return count;
}();
static_assert(in_flight == 2);  // under way while the chunk at hand is looked at
static_assert(forward<ring_attention>.bytes() == 48 * 7 * 2 * (2LL * 2048 * 64 * 128 * 4));
// In the backward pass they go around again. Their cotangents do not: what a device computes of them goes at once to
// where it is added up, which is 7/8 of a chunk where a chunk would go around, and home in the end.
using Chunks = cleave::abstract<float, ring_attention.activations(batch, position, heads, head)>;
using Sources = cleave::abstract<float, mesh(batch / data, ring / model, source, heads, head)>;
constexpr auto around = cleave::plan<std::tuple<Scalar, Chunks, Sources, Sources>(Chunks, Sources, Sources)>(
    planned<8>(cleave::value_and_grad<0, 1, 2>(cleave::function([](auto q, auto k, auto v) {
      return sum(nn::ring_attention(q, k, v, {position, source, head}, ring, nn::causal{}) * q);
    }))));
static_assert(around.count(kind::exchange) == 1 + 1 && around.count(kind::all_to_all) == 2 + 2 + 2 &&
              around.count(kind::all_reduce) == 1 && around.collectives() == 9);
constexpr std::int64_t chunk = 2LL * 2048 * 64 * 128 * 4;
static_assert(around.bytes() == (7 * 2 + 7 * 2) * chunk + (7 * 2 + 2 + 2) * (chunk * 7 / 8) + 2 * 4 * 31 / 32);

// FSDP (Rajbhandari et al. 2020, stage 3): one layer and its gradient gather each of the 12 parameters once and keep
// it, or twice with `remat`; each gradient is reduce-scattered to where its parameter is.
template <bool Recompute>
struct one_layer_loss {
  template <class X, class W>
  constexpr auto operator()(const X& x, const W& w) const {
    const auto f = [](const auto& h, const auto& p) { return layer_of<fully_sharded>(h, p); };
    const auto y = [&] {
      if constexpr (Recompute) return cleave::remat(cleave::function(f))(x, w);
      else return f(x, w);
    }();
    return sum(y * y);
  }
};
template <template <class, auto> class Tensor>
struct one_layer {
  nn::norm_weights<Tensor<float, fully_sharded.parameters(embed)>> before_attention;
  nn::attention_weights<Tensor<float, fully_sharded.parameters(embed, heads, head)>,
                        Tensor<float, fully_sharded.parameters(embed, heads, head)>,
                        Tensor<float, fully_sharded.parameters(heads, head, embed)>>
      attention;
  nn::norm_weights<Tensor<float, fully_sharded.parameters(embed)>> before_feed_forward;
  nn::linear_weights<Tensor<float, fully_sharded.parameters(embed, hidden)>,
                     Tensor<float, fully_sharded.parameters(hidden)>>
      up;
  nn::linear_weights<Tensor<float, fully_sharded.parameters(hidden, embed)>,
                     Tensor<float, fully_sharded.parameters(embed)>>
      down;
};
using One = one_layer<cleave::abstract>;
template <bool Recompute>
constexpr auto fsdp = cleave::plan<One(stream_of<fully_sharded>, One)>(
    planned<64>(cleave::grad<1>(cleave::function(one_layer_loss<Recompute>{}))));
static_assert(fsdp<false>.count(kind::all_gather) == 12 && fsdp<false>.count(kind::reduce_scatter) == 12 &&
              fsdp<false>.collectives() == 24);
static_assert(fsdp<true>.count(kind::reduce_scatter) == 12 &&
              fsdp<true>.count(kind::all_gather) == 12 + 11);  // the last bias is not needed again

// In a scan each gradient is reduced in the iteration that makes it: stacks of partial sums would be as large as all
// layers unsharded.
constexpr auto fsdp_scan =
    cleave::plan<std::tuple<Scalar, model_of<fully_sharded>>(model_of<fully_sharded>, words_of<fully_sharded>,
                                                             words_of<fully_sharded>)>(
        planned<64>(cleave::value_and_grad(loss<fully_sharded>)));
template <class Plan>
constexpr int in_loops(const Plan&, kind k) {
  int count = 0;
  for (const cleave::step& s : Plan::plan_type::steps)
    count += s.move == k && cleave::is_collective(s) && s.in_loop != 0 ? 1 : 0;
  return count;
}
static_assert(in_loops(fsdp_scan, kind::reduce_scatter) == 12 && fsdp_scan.count(kind::reduce_scatter) == 16);
static_assert(in_loops(fsdp_scan, kind::all_gather) == 12 + 8); // backward: 6 kernels and 2 scales

// ZeRO stage 1: parameters are replicated, the averages of Adam sharded. Each of the 16 gradients is reduce-scattered
// to its averages, each parameter gathered after its update; only the loss and the norm of all gradients, by which they
// are clipped, are all-reduced.
struct zero1_step {
  template <class P, class S, class W>
  constexpr auto operator()(const P& p, const S& state, const W& words, const W& next) const {
    auto [value, slope] = cleave::value_and_grad(loss<zero1>)(p, words, next);
    auto [updated, after] = cleave::optim::adam(p, state, cleave::optim::clip_by_global_norm(slope, 1), 0.001);
    return std::tuple(updated, after, value);
  }
};
using Averages = cleave::optim::adam_state<typename parameters<zero1.state>::in<cleave::abstract>, Scalar>;
constexpr auto zero1_plan = cleave::plan<std::tuple<model_of<zero1>, Averages, Scalar>(
    model_of<zero1>, Averages, words_of<zero1>, words_of<zero1>)>(planned<64>(cleave::function(zero1_step{})));
static_assert(zero1_plan.count(kind::all_reduce) == 2 && zero1_plan.count(kind::reduce_scatter) == 16);
// The 17th gathers the words of the batch: rows are added to the embedding's gradient by who has their part of `embed`.
static_assert(zero1_plan.count(kind::all_gather) == 17);

// Experts over an axis that divides the batch (GShard): tokens go there and come back, by one all-to-all each.
namespace moe {
inline constexpr cleave::dim<"expert"> expert;
inline constexpr cleave::dim<"capacity", 128> capacity;
inline constexpr nn::layout_rules tokens{mesh, batch / data / model};
inline constexpr nn::layout_rules sent{mesh, expert / model, batch / data};
inline constexpr nn::layout_rules weights{mesh, expert / model};
using X = cleave::abstract<float, tokens(batch, position, embed)>;
using Router = cleave::abstract<float, mesh(embed, expert)>;
using Up = cleave::abstract<float, weights(expert, embed, hidden)>;
using Down = cleave::abstract<float, weights(expert, hidden, embed)>;
struct layer_body {
  template <class T, class R, class U, class D>
  constexpr auto operator()(const T& x, const R& router, const U& up, const D& down) const {
    return nn::mixture_of_experts(
               x, router, {position, embed, expert, capacity}, nn::experts_per_token::two,
               [&](const cleave::value& s) { return dot(gelu(dot(s, up, embed)), down, hidden); },
               [](const cleave::value& v) { return constrain(v, sent); })
        .mixed;
  }
};
constexpr auto plan = cleave::plan<X(X, Router, Up, Down)>(planned<64>(cleave::function(layer_body{})),
                                                           cleave::expect<expert, 32>{});
static_assert(plan.count(kind::all_to_all) == 2 && plan.collectives() == 2);
static_assert(plan.bytes() == 2 * (32LL * 128 * (64 / 32) * 8192 * 4) * 7 / 8);
} // namespace moe

} // namespace
