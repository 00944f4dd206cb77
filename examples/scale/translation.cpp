// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mesh-TensorFlow's largest model of translation (Shazeer et al. 2018, arXiv 1811.02084): an encoder and a decoder with
// 5 billion weights on 512 cores of TPU v2, batches over the rows of the mesh and heads, hidden units and words over
// its columns. No time of a step was published, and not how many sentences a batch has.

#include "published.hpp"
#include "training.hpp"

namespace scale_translation {

using namespace training;

constexpr cleave::axis<"rows"> rows;
constexpr cleave::axis<"columns"> columns;
constexpr cleave::mesh mesh{rows, columns};
constexpr cleave::dim<"memory"> memory; // a position of the sentence that is translated

constexpr nn::model_layout layout =
    nn::model_layout{nn::layout_rules{mesh, heads / columns, hidden / columns, vocabulary / columns},
                     nn::layout_rules{mesh, batch / rows, heads / columns, hidden / columns, vocabulary / columns}}
        .scheduled(nn::layer_by_layer<true>{});
constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };

using with_layouts = weights<layout.parameters>;
template <template <class, auto> class Tensor>
struct decoder_layer {
  with_layouts::plain<Tensor> own;
  with_layouts::scales<Tensor> before_memory;
  with_layouts::attending<Tensor> of_memory;
};
template <template <class, auto> class Tensor>
struct translator {
  Tensor<float, layout.parameters(vocabulary, embed)> embedding;
  with_layouts::plain<Tensor> encoder;
  decoder_layer<Tensor> decoder;
  with_layouts::scale<Tensor> after_encoder, at_the_end;
};

constexpr cleave::function translation_loss([](const auto& p, const auto& given, const auto& words, const auto& next) {
  const auto encoded = layers<layout, nn::no_mask>(pin(nn::embedding(p.embedding, given, vocabulary)), p.encoder);
  const auto seen = rename(normed(encoded, p.after_encoder), position, memory);
  const auto decoded = nn::blocks(layout, layer, pin(nn::embedding(p.embedding, words, vocabulary)), p.decoder,
                                  [&](const auto& x, const auto& w) {
                                    const auto a = with_attention<layout>(x, w.own);
                                    const auto b = with_memory(pin, a, seen, memory, w.before_memory, w.of_memory);
                                    return with_feed_forward<layout>(b, w.own);
                                  });
  const auto scores = pin(nn::unembedding(normed(decoded, p.at_the_end), p.embedding, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, mesh(batch / rows, position)>;
const auto step = cleave::study::of<adafactor_step<translator<cleave::abstract>, number, words, words, words>>(
    with_adafactor<translation_loss>, {"model", "state"});

/// One core of a TPU v2.
const cleave::machine core = [] {
  cleave::machine m = cleave::machines::tpu_v3;
  m.name = "TPU v2 core";
  m.source = "Jouppi et al. 2020, A domain-specific supercomputer, CACM 63(7)";
  m.flops_of_2 = 23e12;
  m.flops_of_4 = 23e12 / 4;
  m.memory_bandwidth = 350e9;
  m.memory = 8.0 * (1 << 30);
  return m;
}();

published::run run(const char* name, std::int64_t sentences, std::int64_t r, std::int64_t c, const char* collectives) {
  return {name,
          step,
          {layer = 6, batch = sentences, position = 256, source = 256, memory = 256, embed = 1024, hidden = 131072,
           heads = 128, head = 256, vocabulary = 32768, rows = r, columns = c},
          core,
          0,
          collectives};
}

std::vector<published::run> runs() {
  return {run("Mesh-TensorFlow 5B on 16x32", 1024, 16, 32, "all_reduce 103, exchange 2"),
          run("Mesh-TensorFlow 5B on 1048576", 1 << 19, 32768, 32, "all_reduce 103, exchange 2")};
}
const published::program here{"translation", runs};

} // namespace scale_translation
