// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Four layers of DeepSeek-V2 (DeepSeek-AI 2024, arXiv 2405.04434) and V3 (arXiv 2412.19437) as Megatron-LM trains them
// on 8 B200: attention through latent vectors, a dense layer, mixtures of 160 or 256 experts of which 6 or 8 and a
// shared one see each token, Adam, gradients over 4 to 32 microbatches of one sequence. Experts are sharded over the
// devices for batches. Published: the mixtures among the measurements of SimuMax (see NOTICE).

#include "b200_node.hpp"
#include "published.hpp"
#include "training.hpp"

#include <cleave/nn/mixture_of_experts.hpp>

namespace scale_deepseek {

using namespace training;

constexpr cleave::axis<"pipe"> pipe;
constexpr cleave::axis<"data"> data; // sequences and experts
constexpr cleave::mesh mesh{pipe, data};
constexpr cleave::dim<"microbatch"> microbatch;
constexpr cleave::dim<"stage"> stage;
constexpr cleave::dim<"dense layer"> dense_layer;
constexpr cleave::dim<"feature"> feature; // of a query: those of a head, and those that carry its position
constexpr cleave::dim<"rotated"> rotated; // the latter
constexpr cleave::dim<"query rank"> query_rank; // of the latent vectors
constexpr cleave::dim<"key rank"> key_rank;
constexpr cleave::dim<"shared"> shared; // features of the shared expert
constexpr cleave::dim<"inner"> inner; // of one of the others
constexpr cleave::dim<"expert"> expert;
constexpr cleave::dim<"capacity"> capacity;

constexpr auto layout = nn::model_layout{nn::layout_rules{mesh, nn::after(layer, stage / pipe), expert / data},
                                         nn::layout_rules{mesh, stage / pipe, nn::before(batch, microbatch),
                                                          batch / data}}
                            .scheduled(nn::pipelined{stage, microbatch});
constexpr auto& rules = layout.parameters;
constexpr nn::layout_rules sent{mesh, stage / pipe, nn::before(batch, microbatch), expert / data};
constexpr nn::layout_rules replicated{mesh, nn::after(layer, stage / pipe)};

/// Attention to keys and values that are made from short latent vectors. Layers are stacked along `Layer`.
template <template <class, auto> class Tensor, auto Layer>
struct latent_attention_weights {
  Tensor<float, rules(Layer, embed)> before;
  Tensor<float, rules(Layer, embed, query_rank)> query_down;
  Tensor<float, rules(Layer, query_rank)> query_scale;
  Tensor<float, rules(Layer, query_rank, heads, feature)> query_up;
  Tensor<float, rules(Layer, embed, key_rank)> key_down;
  Tensor<float, rules(Layer, embed, rotated)> rotated_down;
  Tensor<float, rules(Layer, key_rank)> key_scale;
  Tensor<float, rules(Layer, key_rank, heads, head)> key_up, value_up;
  Tensor<float, rules(Layer, heads, head, embed)> out;
};
template <template <class, auto> class Tensor, auto Layer, auto Inner>
struct gated_weights {
  Tensor<float, rules(Layer, embed, Inner)> gate, up;
  Tensor<float, rules(Layer, Inner, embed)> down;
};
template <template <class, auto> class Tensor>
struct dense_weights {
  latent_attention_weights<Tensor, dense_layer> attention;
  Tensor<float, rules(dense_layer, embed)> before;
  gated_weights<Tensor, dense_layer, hidden> feed_forward;
};
template <template <class, auto> class Tensor>
struct mixture_weights {
  latent_attention_weights<Tensor, layer> attention;
  Tensor<float, rules(layer, embed)> before;
  Tensor<float, replicated(layer, embed, expert)> router;
  Tensor<float, rules(layer, expert, embed, inner)> gate, up;
  Tensor<float, rules(layer, expert, inner, embed)> down;
  gated_weights<Tensor, layer, shared> always;
};
template <template <class, auto> class Tensor>
struct in_stages {
  Tensor<float, rules(vocabulary, embed)> embedding;
  mixture_weights<Tensor> mixtures;
  Tensor<float, rules(embed)> at_the_end;
  Tensor<float, rules(vocabulary, embed)> output;
};
template <template <class, auto> class Tensor>
struct dense_first {
  in_stages<Tensor> rest;
  dense_weights<Tensor> dense;
};

constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
// Each of these is one kernel, which keeps its arguments for the gradient.
template <auto Over>
constexpr cleave::function kernel_of_norm([](const auto& x, const auto& w) { return nn::rms_norm(x, w, Over); });
template <auto Over = embed>
constexpr auto norm = [](const auto& x, const auto& w) { return remat(kernel_of_norm<Over>)(x, w); };
constexpr cleave::function kernel_of_gate([](const auto& gate, const auto& up) {
  return gate / (1.0 + exp(-gate)) * up;
});
constexpr auto gated = [](const auto& x, const auto& w, auto inner_dim) {
  return dot(pin(remat(kernel_of_gate)(pin(dot(x, w.gate, embed)), pin(dot(x, w.up, embed)))), w.down, inner_dim);
};
constexpr auto with_latent_attention = [](const auto& x, const auto& w) {
  const auto a = norm<>(x, w.before);
  const auto q = pin(dot(norm<query_rank>(dot(a, w.query_down, embed), w.query_scale), w.query_up, query_rank));
  const auto latent = norm<key_rank>(dot(a, w.key_down, embed), w.key_scale);
  const auto own = pin(dot(latent, w.key_up, key_rank));
  // All heads share the features that carry a position.
  const auto position_of_all = zeros_like(slice(q, feature, rotated, -64)) + dot(a, w.rotated_down, embed);
  const auto k = concat(feature, piece(own, head), piece(position_of_all, rotated));
  const auto v = pin(dot(latent, w.value_up, key_rank));
  const auto mixed = nn::attention(q, pin(rename(k, position, source)), pin(rename(v, position, source)),
                                   {position, source, feature}, nn::causal{});
  return pin(x + dot(pin(mixed), w.out, heads, head));
};
constexpr auto of_dense = [](const auto& x, const auto& w) {
  const auto a = with_latent_attention(x, w.attention);
  return pin(a + gated(norm<>(a, w.before), w.feed_forward, hidden));
};
/// Each token goes to `Choice` experts, and all to the shared one.
template <auto Choice>
constexpr auto of_mixture = [](const auto& x, const auto& w) {
  const auto a = with_latent_attention(x, w.attention);
  const auto b = norm<>(a, w.before);
  const auto at_experts = [](const auto& v) { return constrain(v, sent); };
  const auto apply = [&](const auto& given) {
    const auto gate = at_experts(dot(given, w.gate, embed)), up = at_experts(dot(given, w.up, embed));
    return dot(at_experts(remat(kernel_of_gate)(gate, up)), w.down, inner);
  };
  const auto found = nn::mixture_of_experts(b, w.router, {position, embed, expert, capacity}, Choice, apply,
                                            at_experts);
  return pin(a + found.mixed + gated(b, w.always, shared));
};

/// The mean over all positions of -log of the probability of the word there.
template <auto Choice>
constexpr auto of_rest = [](const auto& begin, const auto& p, const auto& next) {
  const auto end = normed(nn::blocks(layout, layer, begin, p.mixtures, of_mixture<Choice>), p.at_the_end);
  const auto scores = pin(nn::unembedding(end, p.output, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
};
constexpr auto begins = [](const auto& p, const auto& words) {
  return pin(nn::embedding(p.embedding, words, vocabulary));
};
template <auto Choice>
constexpr cleave::function loss_in_stages([](const auto& p, const auto& words, const auto& next, const auto&) {
  return of_rest<Choice>(begins(p, words), p, next);
});
template <auto Choice>
constexpr cleave::function loss_with_dense([](const auto& p, const auto& words, const auto& next, const auto&) {
  return of_rest<Choice>(scan(dense_layer, begins(p.rest, words), p.dense, of_dense), p.rest, next);
});

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, layout.activations(batch, position)>;
using places = cleave::abstract<float, mesh(capacity)>; // says how many tokens an expert takes
template <class Model, const auto& Loss>
const cleave::study& step() {
  static const auto recorded = cleave::study::of<adam_step<Model, number, words, words, places>>(with_adam<Loss>,
                                                                                                 {"model", "state"});
  return recorded;
}
/// Each token goes to the experts of dim `Choice`.
template <auto Choice>
const cleave::study& step_with(bool stages) {
  return stages ? step<in_stages<cleave::abstract>, loss_in_stages<Choice>>()
                : step<dense_first<cleave::abstract>, loss_with_dense<Choice>>();
}

/// Of the peak, the kernel of attention for these heads, whose queries have 192 features and values 128, reached 0.831
/// forward and 0.643 backward, as SimuMax's authors measured it alone.
const cleave::machine node = [] {
  cleave::machine m = b200_node::machine;
  m.fused_efficiency = 3 / (1 / 0.831 + 2 / 0.643);
  m.sums = cleave::sums_in_loops::in_passes; // those of grouped products
  return m;
}();

struct model_sizes {
  const char* name;
  const cleave::study& (*step)(bool stages);
  std::int64_t width, dense, inner, shared, experts, choices, words;
};
const model_sizes v2{"V2, 4 layers", step_with<cleave::dim<"choice", 6>{}>, 5120, 12288, 1536, 3072, 160, 6, 102400},
    v3{"V3, 4 layers", step_with<cleave::dim<"choice", 8>{}>, 7168, 18432, 2048, 2048, 256, 8, 129280};

/// All stages have layers of one kind: in two stages each has two mixtures. The dense layer of the first published
/// stage has as many operations as a mixture (its features are those of the experts that a token sees), and the last
/// stage, with two mixtures and the output, takes longest.
published::run run(const model_sizes& m, std::int64_t stages, std::int64_t microbatches, double seconds,
                   const char* collectives) {
  constexpr std::int64_t length = 4096, devices = 8;
  const std::int64_t d = devices / stages;
  std::vector<cleave::named_size> sizes{layer = 3,
                                        stage = stages,
                                        batch = d,
                                        position = length,
                                        source = length,
                                        microbatch = microbatches,
                                        embed = m.width,
                                        inner = m.inner,
                                        shared = m.shared,
                                        heads = 128,
                                        head = 128,
                                        feature = 192,
                                        rotated = 64,
                                        query_rank = 1536,
                                        key_rank = 512,
                                        expert = m.experts,
                                        capacity = (length * m.choices + m.experts - 1) / m.experts,
                                        vocabulary = m.words,
                                        pipe = stages,
                                        data = d};
  if (stages > 1) sizes[0] = (layer = 2);
  else sizes.insert(sizes.end(), {dense_layer = 1, hidden = m.dense});
  return {std::string(m.name) + ", " + std::to_string(microbatches) + " microbatches, " + std::to_string(stages) +
              " x " + std::to_string(d),
          m.step(stages > 1),
          sizes,
          node,
          seconds,
          collectives};
}
std::vector<published::run> runs() {
  struct measured {
    std::int64_t stages, microbatches;
    double of_v2, of_v3;
    const char *with_v2, *with_v3;
  };
  constexpr const char *in_stages = "all_gather 2, all_reduce 19, all_to_all 5, exchange 3",
                       *in_long_stages = "all_gather 2, all_reduce 19, all_to_all 5, exchange 2",
                       *gathered_stages = "all_gather 3, all_reduce 19, all_to_all 5, exchange 3",
                       *with_batches = "all_gather 1, all_reduce 32, all_to_all 4, exchange 1",
                       *with_wide_batches = "all_reduce 32, all_to_all 4, exchange 1",
                       *with_many_batches = "all_reduce 33, all_to_all 4";
  constexpr measured all[] = {{1, 4, 0.3666, 0.6032, with_batches, with_wide_batches},
                              {2, 4, 0.2821, 0.4522, in_stages, in_stages},
                              {1, 8, 0.6762, 1.1017, with_batches, with_batches},
                              {2, 8, 0.4926, 0.7716, gathered_stages, in_stages},
                              {1, 32, 2.7213, 4.1412, with_many_batches, with_many_batches},
                              {2, 32, 1.7277, 2.7186, in_long_stages, in_long_stages}};
  std::vector<published::run> made;
  for (const measured& m : all) made.push_back(run(v2, m.stages, m.microbatches, m.of_v2, m.with_v2));
  for (const measured& m : all) made.push_back(run(v3, m.stages, m.microbatches, m.of_v3, m.with_v3));
  return made;
}

const published::program here{"deepseek", runs};

} // namespace scale_deepseek
