// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conformers of 8 billion weights for speech (Gulati et al. 2020; BigSSL, Zhang et al. 2021), pipelined as in GSPMD
// (section 5.4): 36 layers, each a half feed-forward part, attention, a depthwise convolution along time, and another
// half feed-forward part. The dims of batches are not published, and no time of a step is.

#include "published.hpp"
#include "training.hpp"

#include <cleave/expr/movement.hpp>

namespace scale_speech {

using namespace training;

constexpr cleave::axis<"pipe"> pipe;
constexpr cleave::axis<"X"> X;
constexpr cleave::axis<"Y"> Y;
constexpr cleave::mesh mesh{pipe, X, Y};
constexpr cleave::dim<"microbatch"> microbatch;
constexpr cleave::dim<"stage"> stage;
constexpr cleave::dim<"inner"> inner; // of a convolution
constexpr cleave::dim<"kernel", 5> kernel;

constexpr auto layout =
    nn::model_layout{nn::layout_rules{mesh, nn::after(layer, stage / pipe), heads / Y, hidden / Y, inner / Y,
                                      embed / X},
                     nn::layout_rules{mesh, stage / pipe, nn::before(batch, microbatch), batch / X, heads / Y,
                                      hidden / Y, inner / Y, embed / Y}}
        .scheduled(nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, 1, cleave::dim<"round", 1>, true>{});
constexpr auto& rules = layout.parameters;
constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };

using with_layouts = weights<rules>;
template <template <class, auto> class Tensor>
struct half_part {
  with_layouts::scales_and_biases<Tensor> before;
  Tensor<float, rules(layer, embed, hidden)> up;
  Tensor<float, rules(layer, hidden, embed)> down;
};
template <template <class, auto> class Tensor>
struct conformer {
  half_part<Tensor> first, last;
  with_layouts::scales_and_biases<Tensor> before_attention, before_convolution, at_the_end;
  with_layouts::attending<Tensor> attention;
  Tensor<float, rules(layer, embed, inner)> gate, pointwise;
  Tensor<float, rules(layer, kernel, inner)> depthwise;
  nn::norm_weights<Tensor<float, rules(layer, inner)>> after_depthwise;
  Tensor<float, rules(layer, inner, embed)> out;
};

constexpr auto with_half = [](const auto& x, const auto& w) {
  return pin(x + 0.5 * dot(pin(nn::silu(dot(normed(x, w.before), w.up, embed))), w.down, hidden));
};
constexpr auto with_convolution = [](const auto& x, const auto& w) {
  const auto a = normed(x, w.before_convolution);
  const auto gated = pin(dot(a, w.pointwise, embed)) * sigmoid(pin(dot(a, w.gate, embed)));
  const auto seen = windows(gated, cleave::window{position, position, kernel, 1, 1, 2, 2});
  const auto mixed = nn::layer_norm(sum(seen * w.depthwise, kernel), w.after_depthwise, inner);
  return pin(x + dot(pin(nn::silu(mixed)), w.out, inner));
};
/// The mean square of the encoding: the loss that it is trained for has no part in its cost here.
constexpr cleave::function speech_loss([](const auto& p, const auto& frames) {
  const auto y = nn::blocks(layout, layer, pin(frames), p, [](const auto& x, const auto& w) {
    const auto a = with_convolution(with_attention<layout, nn::no_mask>(with_half(x, w.first), w), w);
    return pin(normed(with_half(a, w.last), w.at_the_end));
  });
  return mean(cleave::cast<float>(y * y));
});

using number = cleave::abstract<float, mesh()>;
using frames = cleave::abstract<cleave::bfloat16, layout.activations(batch, position, embed)>;
const auto step = cleave::study::of<adam_step<conformer<cleave::abstract>, number, frames>>(with_adam<speech_loss>,
                                                                                            {"model", "state"});

published::run run(const char* name, std::int64_t stages, std::int64_t x, std::int64_t y, const char* collectives) {
  return {name,
          step,
          {layer = 36 / stages, stage = stages, microbatch = 16, batch = 8 * x, position = 1024, source = 1024,
           embed = 3072, hidden = 12288, inner = 3072, heads = 16, head = 192, pipe = stages, X = x, Y = y},
          cleave::machines::tpu_v3,
          0,
          collectives};
}

std::vector<published::run> runs() {
  return {run("Conformer 8B, 4 stages", 4, 8, 4,
              "all_gather 49, all_reduce 40, all_to_all 18, collective_permute 19, exchange 3, reduce_scatter 27"),
          run("Conformer 8B, 36 stages", 36, 4, 1,
              "all_gather 22, all_reduce 4, collective_permute 19, exchange 3, reduce_scatter 21"),
          run("Conformer 8B on 1048576", 4, 65536, 4,
              "all_gather 58, all_reduce 34, all_to_all 16, collective_permute 1, exchange 3, reduce_scatter 28")};
}
const published::program here{"speech", runs};

} // namespace scale_speech
