// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conformers of 8 billion weights for speech (Gulati et al. 2020; BigSSL, Zhang et al. 2021), pipelined as in GSPMD
// (section 5.4): 36 layers, each a half feed-forward part, attention, a depthwise convolution along time, and another
// half feed-forward part. The dims of batches are not published, and no time of a step is.

#include "../conformer.hpp"
#include "published.hpp"
#include "training.hpp"

namespace scale_speech {

using namespace training;
using namespace conformers;

constexpr cleave::axis<"pipe"> pipe;
constexpr cleave::axis<"X"> X;
constexpr cleave::axis<"Y"> Y;
constexpr cleave::mesh mesh{pipe, X, Y};

constexpr auto layout =
    nn::model_layout{nn::layout_rules{mesh, nn::after(layer, stage / pipe), heads / Y, hidden / Y, inner / Y,
                                      embed / X},
                     nn::layout_rules{mesh, stage / pipe, nn::before(batch, microbatch), batch / X, heads / Y,
                                      hidden / Y, inner / Y, embed / Y}}
        .scheduled(nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, 1, cleave::dim<"round", 1>, true>{});

/// The mean square of the encoding: the loss that it is trained for has no part in its cost here.
constexpr cleave::function speech_loss([](const auto& p, const auto& frames) {
  const auto y = encoded<layout>(constrain(frames, layout.activations), p);
  return mean(cleave::cast<float>(y * y));
});

using number = cleave::abstract<float, mesh()>;
using frames = cleave::abstract<cleave::bfloat16, layout.activations(batch, position, embed)>;
const auto step = cleave::study::of<adam_step<conformer<layout.parameters>::in<cleave::abstract>, number, frames>>(
    with_adam<speech_loss>, {"model", "state"});

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
              "all_gather 58, all_reduce 36, all_to_all 17, collective_permute 1, exchange 3, reduce_scatter 29")};
}
const published::program here{"speech", runs};

} // namespace scale_speech
