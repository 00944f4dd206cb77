// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A forecast of rain like MetNet-2 (Espeholt et al. 2022, arXiv 2111.07470): residual blocks of convolutions with
// dilations of 1 to 256 on a grid of 512 x 512, rows over X and columns over Y. Where shards are smaller than a
// dilation, halos come from devices beyond the neighbour. No time of a step is published.

#include "published.hpp"
#include "training.hpp"

#include <cleave/expr/movement.hpp>

#include <array>

namespace scale_weather {

namespace nn = cleave::nn;

constexpr cleave::axis<"D"> D;
constexpr cleave::axis<"X"> X;
constexpr cleave::axis<"Y"> Y;
constexpr cleave::mesh mesh{D, X, Y};
constexpr cleave::dim<"batch"> batch;
constexpr cleave::dim<"row"> row;
constexpr cleave::dim<"column"> column;
constexpr cleave::dim<"kernel row", 3> kernel_row;
constexpr cleave::dim<"kernel column", 3> kernel_column;
constexpr cleave::dim<"input"> input; // channels of the observations
constexpr cleave::dim<"channel"> channel;
constexpr cleave::dim<"next channel"> next_channel;
constexpr cleave::dim<"rain"> rain; // classes of how much
constexpr cleave::dim<"block"> block; // of one dilation

constexpr nn::layout_rules by_space{mesh, batch / D, row / X, column / Y};
constexpr auto pin = [](const auto& v) { return constrain(v, by_space); };

template <template <class, auto> class Tensor>
struct network {
  struct blocks {
    nn::norm_weights<Tensor<float, mesh(block, channel)>> before;
    Tensor<float, mesh(block, kernel_row, kernel_column, channel, next_channel)> kernel;
  };
  Tensor<float, mesh(input, channel)> first;
  std::array<blocks, 9> dilated;
  Tensor<float, mesh(channel, rain)> last;
};
constexpr cleave::function rain_loss([](const auto& p, const auto& seen, const auto& fell) {
  auto x = pin(dot(seen, p.first, input));
  std::int64_t d = 1;
  for (const auto& b : p.dilated) {
    x = scan(block, x, b, remat(cleave::function([d](const auto& h, const auto& w) {
               const auto around = windows(relu(nn::layer_norm(h, w.before, channel)),
                                           cleave::window{row, row, kernel_row, 1, d, d, d},
                                           cleave::window{column, column, kernel_column, 1, d, d, d});
               return pin(h + rename(dot(around, w.kernel, kernel_row, kernel_column, channel), next_channel, channel));
             })));
    d *= 2;
  }
  return mean(nn::cross_entropy(cleave::cast<float>(dot(x, p.last, channel)), fell, rain));
});

using number = cleave::abstract<float, mesh()>;
using fields = cleave::abstract<cleave::bfloat16, by_space(batch, row, column, input)>;
using classes = cleave::abstract<int, by_space(batch, row, column)>;
const auto step = cleave::study::of<training::adam_step<network<cleave::abstract>, number, fields, classes>>(
    training::with_adam<rain_loss>, {"model", "state"});

published::run run(const char* name, std::int64_t side, std::int64_t examples, std::int64_t x, std::int64_t y,
                   const char* collectives) {
  return {name,
          step,
          {batch = examples, row = side, column = side, input = 128, channel = 384, next_channel = 384, rain = 512,
           block = 2, D = examples, X = x, Y = y},
          cleave::machines::tpu_v3,
          0,
          collectives};
}

std::vector<published::run> runs() {
  return {run("MetNet-2 on 16x4x4", 512, 16, 4, 4, "all_reduce 30, exchange 27"),
          run("MetNet-2 on 8x16x16", 512, 8, 16, 16, "all_reduce 30, exchange 27"),
          run("MetNet-2 on 1048576", 16384, 16, 256, 256, "all_reduce 30, exchange 27")};
}
const published::program here{"weather", runs};

} // namespace scale_weather
