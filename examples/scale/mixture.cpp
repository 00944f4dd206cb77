// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GShard's models of translation (Lepikhin et al. 2020, arXiv 2006.16668, tables 1 and 3, appendix A): half of the
// layers in the encoder, half in the decoder; in every other one, each token goes to two of up to 2,048 experts, one on
// each core of a TPU v3. Batches and experts are sharded over all cores, the other weights are replicated. Values are
// 32-bit floats, which products of the TPU round to 16 bits. 36 layers are computed again for their gradients, 12 are
// not, as the paper reports. Published times: steps a second. The paper's tokens of a batch are taken to be those of
// both languages: if there were as many in each, 12 layers with 128 experts would run at 115 Tflop/s of a core's 61.5.

#include "published.hpp"
#include "training.hpp"

#include <cleave/nn/mixture_of_experts.hpp>

namespace scale_mixture {

using namespace training;

constexpr cleave::axis<"R"> R; // groups of cores, each with all experts
constexpr cleave::axis<"D"> D;
constexpr cleave::mesh mesh{R, D};
constexpr cleave::dim<"sequence"> sequence; // of a group, whose tokens compete for the places of experts
constexpr cleave::dim<"token"> token; // of a group
constexpr cleave::dim<"memory"> memory; // a position of the sentence that is translated
constexpr cleave::dim<"expert"> expert;
constexpr cleave::dim<"capacity"> capacity; // the places of an expert for a group

constexpr nn::model_layout gshard{nn::layout_rules{mesh, expert / D}, nn::layout_rules{mesh, batch / R / D}};
constexpr auto recomputed = gshard.scheduled(nn::layer_by_layer<true>{});
constexpr nn::layout_rules replicated{mesh};
constexpr nn::layout_rules sent{mesh, expert / D, batch / R};
constexpr auto pin = [](const auto& v) { return constrain(v, gshard.activations); };

using with_layouts = weights<gshard.parameters>;
template <template <class, auto> class Tensor>
struct expert_layer {
  with_layouts::scales<Tensor> before_attention;
  with_layouts::attending<Tensor> attention;
  with_layouts::scales<Tensor> before_feed_forward;
  Tensor<float, replicated(layer, embed, expert)> router;
  Tensor<float, gshard.parameters(layer, expert, embed, hidden)> up;
  Tensor<float, gshard.parameters(layer, expert, hidden, embed)> down;
};
/// Two layers of the encoder.
template <template <class, auto> class Tensor>
struct encoder_pair {
  with_layouts::plain<Tensor> first;
  expert_layer<Tensor> second;
};
template <template <class, auto> class Tensor>
struct looking_at_memory {
  with_layouts::scales<Tensor> before;
  with_layouts::attending<Tensor> attention;
};
/// Two layers of the decoder.
template <template <class, auto> class Tensor>
struct decoder_pair {
  with_layouts::plain<Tensor> first;
  expert_layer<Tensor> second;
  looking_at_memory<Tensor> from_first, from_second;
};
template <template <class, auto> class Tensor>
struct translator {
  Tensor<float, replicated(vocabulary, embed)> embedding;
  encoder_pair<Tensor> encoder;
  decoder_pair<Tensor> decoder;
  with_layouts::scale<Tensor> after_encoder, at_the_end;
};

/// x and the results of the experts of its tokens.
constexpr auto with_experts = [](const auto& x, const auto& w) {
  const auto apply = [&](const auto& sent) { return dot(relu(dot(sent, w.up, embed)), w.down, hidden); };
  const auto found = nn::mixture_of_experts(merge(normed(x, w.before_feed_forward), sequence, position, token),
                                            w.router, {token, embed, expert, capacity}, nn::experts_per_token::two,
                                            apply, [](const auto& v) { return constrain(v, sent); });
  return pin(x + split(found.mixed, token, sequence, position));
};
template <auto Layout>
constexpr cleave::function loss_of([](const auto& p, const auto& given, const auto& words, const auto& next,
                                      const auto&) {
  const auto encoded = nn::blocks(Layout, layer, pin(nn::embedding(p.embedding, given, vocabulary)), p.encoder,
                                  [](const auto& x, const auto& w) {
                                    const auto a = layer_of<Layout, nn::no_mask>(x, w.first);
                                    return with_experts(with_attention<Layout, nn::no_mask>(a, w.second), w.second);
                                  });
  const auto seen = rename(normed(encoded, p.after_encoder), position, memory);
  const auto decoded = nn::blocks(Layout, layer, pin(nn::embedding(p.embedding, words, vocabulary)), p.decoder,
                                  [&](const auto& x, const auto& w) {
                                    const auto a = with_memory(pin, with_attention<Layout>(x, w.first), seen, memory,
                                                               w.from_first.before, w.from_first.attention);
                                    const auto b = with_feed_forward<Layout>(a, w.first);
                                    const auto c = with_memory(pin, with_attention<Layout>(b, w.second), seen, memory,
                                                               w.from_second.before, w.from_second.attention);
                                    return with_experts(c, w.second);
                                  });
  const auto scores = pin(nn::unembedding(normed(decoded, p.at_the_end), p.embedding, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});
constexpr auto& kept_loss = loss_of<gshard>;
constexpr auto& recomputed_loss = loss_of<recomputed>;

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, mesh(batch / R / D, sequence, position)>;
using places = cleave::abstract<float, mesh(capacity)>;
using signature = adafactor_step<translator<cleave::abstract>, number, words, words, words, places>;
const auto keeps = cleave::study::of<signature>(with_adafactor<kept_loss, float>, {"model", "state"});
const auto recomputes = cleave::study::of<signature>(with_adafactor<recomputed_loss, float>, {"model", "state"});

/// The cores are on a 2-D torus: the axis of the experts has the wires of both of its rings.
const cleave::machine torus = [] {
  cleave::machine m = cleave::machines::tpu_v3.with(D, {10e-6, 164e9, cleave::wiring::torus, 2});
  m.flops_of_4 = m.flops_of_2;
  return m;
}();

/// `tokens`: of a core, in both languages. Those of a language on a core compete for an expert's places, of which there
/// are as many as all experts need if they are used alike. The paper does not say how long sequences are.
published::run run(const char* name, std::int64_t layers, std::int64_t experts, std::int64_t tokens, double seconds,
                   std::int64_t groups = 1) {
  return {name,
          layers > 12 ? recomputes : keeps,
          {layer = layers / 4, batch = groups * experts, sequence = tokens / 2 / 128, position = 128, source = 128,
           memory = 128, embed = 1024, hidden = 8192, heads = 16, head = 128, vocabulary = 64000, expert = experts,
           capacity = std::max<std::int64_t>(1, tokens / experts), R = groups, D = experts},
          torus,
          seconds,
          groups > 1    ? "all_reduce 56, all_to_all 12"
          : layers > 12 ? "all_reduce 52, all_to_all 12"
                        : "all_reduce 52, all_to_all 8"};
}

std::vector<published::run> runs() {
  return {run("600B, 2048 experts, 36 layers", 36, 2048, 2048, 1 / 0.72),
          run("200B, 2048 experts, 12 layers", 12, 2048, 2048, 1 / 2.15),
          run("150B, 512 experts, 36 layers", 36, 512, 2048, 1 / 1.05),
          run("50B, 512 experts, 12 layers", 12, 512, 2048, 1 / 3.28),
          run("37B, 128 experts, 36 layers", 36, 128, 8192, 1 / 0.67),
          run("12.5B, 128 experts, 12 layers", 12, 128, 8192, 1 / 2.16),
          run("37B, 2048 tokens a core", 36, 128, 2048, 0),
          run("600B on 1048576", 36, 2048, 2048, 0, 512)};
}
const published::program here{"mixture", runs};

} // namespace scale_mixture
