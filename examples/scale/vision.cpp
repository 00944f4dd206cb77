// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vision transformers (Dosovitskiy et al. 2021) with the dims of ViT-22B (Dehghani et al. 2023, arXiv 2302.05442) on
// 1,024 TPU v4, with three layouts: heads and hidden units over an axis; batches over both; rows of patches over an
// axis, as GSPMD shards images. No time of a step is published.

#include "published.hpp"
#include "training.hpp"

#include <cleave/expr/movement.hpp>

namespace scale_vision {

using namespace training;

constexpr cleave::axis<"X"> X;
constexpr cleave::axis<"Y"> Y;
constexpr cleave::mesh mesh{X, Y};
constexpr cleave::dim<"row"> row; // of pixels
constexpr cleave::dim<"column"> column;
constexpr cleave::dim<"channel", 3> channel;
constexpr cleave::dim<"patch row"> patch_row;
constexpr cleave::dim<"patch column"> patch_column;
constexpr cleave::dim<"kernel row", 14> kernel_row;
constexpr cleave::dim<"kernel column", 14> kernel_column;
constexpr cleave::dim<"class"> label;

constexpr nn::layout_rules stored{mesh, heads / Y, hidden / Y, embed / X};
constexpr auto by_model = nn::model_layout{stored, nn::layout_rules{mesh, batch / X, heads / Y, hidden / Y}}.scheduled(
    nn::layer_by_layer<true>{});
constexpr auto by_batch = nn::model_layout{stored, nn::layout_rules{mesh, batch / X / Y}}.scheduled(
    nn::layer_by_layer<true>{});
constexpr auto by_space =
    nn::model_layout{stored, nn::layout_rules{mesh, batch / X, row / Y, patch_row / Y, position / Y}}.scheduled(
        nn::layer_by_layer<true>{});

template <template <class, auto> class Tensor>
struct vit {
  Tensor<float, mesh(kernel_row, kernel_column, channel, embed)> patch;
  Tensor<float, mesh(patch_row, patch_column, embed)> positions;
  weights<stored>::biased<Tensor> layers;
  Tensor<float, mesh(embed, label)> classes;
};
template <auto Layout>
constexpr cleave::function label_loss([](const auto& p, const auto& images, const auto& labels) {
  constexpr auto pin = [](const auto& v) { return constrain(v, Layout.activations); };
  const auto seen = windows(images, cleave::window{row, patch_row, kernel_row, 14},
                            cleave::window{column, patch_column, kernel_column, 14});
  const auto patches = pin(dot(seen, p.patch, kernel_row, kernel_column, channel) + p.positions);
  const auto end = layers<Layout, nn::no_mask>(pin(merge(patches, patch_row, patch_column, position)), p.layers);
  const auto scores = dot(mean(end, position), p.classes, embed);
  return mean(nn::cross_entropy(cleave::cast<float>(scores), labels, label));
});

using number = cleave::abstract<float, mesh()>;
template <auto Layout>
cleave::study recorded() {
  constexpr auto& of_labels = label_loss<Layout>;
  using images = cleave::abstract<cleave::bfloat16, Layout.activations(batch, row, column, channel)>;
  using labels = cleave::abstract<int, Layout.activations(batch)>;
  return cleave::study::of<adam_step<vit<cleave::abstract>, number, images, labels>>(with_adam<of_labels>,
                                                                                     {"model", "state"});
}
const auto with_model = recorded<by_model>(), with_batch = recorded<by_batch>(), with_space = recorded<by_space>();

published::run run(const char* name, const cleave::study& how, std::int64_t images, std::int64_t x, std::int64_t y,
                   const char* collectives) {
  return {name,
          how,
          {layer = 48, batch = images, row = 448, column = 448, patch_row = 32, patch_column = 32, position = 1024,
           source = 1024, embed = 6144, hidden = 24576, heads = 48, head = 128, label = 30000, X = x, Y = y},
          cleave::machines::tpu_v4,
          0,
          collectives};
}

std::vector<published::run> runs() {
  return {run("ViT-22B by model", with_model, 4096, 64, 16,
              "all_gather 28, all_reduce 8, all_to_all 4, collective_permute 2, reduce_scatter 11"),
          run("ViT-22B by batch", with_batch, 4096, 64, 16,
              "all_gather 24, all_reduce 10, collective_permute 2, reduce_scatter 12"),
          run("ViT-22B by space", with_space, 4096, 64, 16,
              "all_gather 32, all_reduce 10, collective_permute 2, exchange 1, reduce_scatter 15"),
          run("ViT-22B by batch on 1048576", with_batch, 1 << 22, 65536, 16,
              "all_gather 25, all_reduce 10, all_to_all 1, reduce_scatter 12")};
}
const published::program here{"vision", runs};

} // namespace scale_vision
