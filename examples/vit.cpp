// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small vision transformer (Dosovitskiy et al. 2021) on the handwritten digits: images are cut into patches of 2 x 2
// pixels, and layers of a transformer look at all of them. Heads and hidden units are sharded over `model`, images over
// `data`. Records are read ahead in a random order, and the training ends when it does not get better.
//
//   mpirun -n 4 vit examples/data/digits.csv [--mesh 2x2] [--epochs 20]
#include "digits_data.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "transformer.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/loader.hpp>
#include <cleave/nn/convolution.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/initial_values.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/schedule.hpp>
#include <cleave/optim/stopping.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace vit {

using namespace transformer;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};

inline constexpr cleave::dim<"row", 8> row;
inline constexpr cleave::dim<"col", 8> col;
inline constexpr cleave::dim<"channel", 1> channel;
inline constexpr cleave::dim<"patch row", 4> patch_row;
inline constexpr cleave::dim<"patch col", 4> patch_col;
inline constexpr cleave::dim<"inner row", 2> inner_row;
inline constexpr cleave::dim<"inner col", 2> inner_col;
inline constexpr cleave::dim<"digit", 10> digit;

inline constexpr nn::model_layout layout{nn::layout_rules{mesh, heads / model, hidden / model},
                                         nn::layout_rules{mesh, batch / data, heads / model, hidden / model}};

template <template <class, auto> class Tensor>
struct parameters {
  template <auto... D>
  using parameter = Tensor<float, layout.parameters(D...)>;
  nn::linear_weights<parameter<inner_row, inner_col, channel, embed>, parameter<embed>> patches;
  parameter<position, embed> positions;
  typename weights<layout.parameters>::template biased<Tensor> layers;
  nn::norm_weights<parameter<embed>> at_the_end;
  nn::linear_weights<parameter<embed, digit>, parameter<digit>> answer;
};
using Parameters = parameters<cleave::tensor>;
using Scalar = cleave::tensor<float, mesh()>;
using State = cleave::optim::adam_state<Parameters, Scalar>;
using Images = cleave::tensor<float, layout.activations(batch, row, col, channel)>;
using Labels = cleave::tensor<int, layout.activations(batch)>;

constexpr cleave::function scores([](const auto& p, const auto& images) {
  const auto patches = nn::patch_embedding(images, p.patches, channel, position, nn::patch{row, patch_row, inner_row},
                                           nn::patch{col, patch_col, inner_col});
  const auto start = constrain(patches + p.positions, layout.activations);
  const auto end = nn::layer_norm(layers<layout, nn::no_mask>(start, p.layers), p.at_the_end, embed);
  return nn::linear(mean(end, position), p.answer, embed);
});
constexpr cleave::function loss([](const auto& p, const auto& images, const auto& labels) {
  return mean(nn::cross_entropy(scores(p, images), labels, digit, 0.1));
});
template <class Body>
constexpr auto planned(Body body) {
  return cleave::with(cleave::function(body), cleave::expect<batch, 64>{}, cleave::expect<position, 16>{},
                      cleave::expect<layer, 2>{}, cleave::expect<embed, 32>{}, cleave::expect<heads, 4>{},
                      cleave::expect<head, 8>{}, cleave::expect<hidden, 64>{});
}
constexpr auto step = planned(
    [](const auto& p, const auto& state, const auto& images, const auto& labels, const auto& rate) {
      const auto [value, slope] = cleave::value_and_grad(loss)(p, images, labels);
      constexpr cleave::optim::adam_options options{.weight_decay = 0.05};
      return std::tuple_cat(cleave::optim::adam(p, state, slope, rate, options), std::tuple(value));
    });
constexpr auto accuracy = planned([](const auto& p, const auto& images, const auto& labels) {
  return mean(cast<float>(argmax(scores(p, images), digit) == labels));
});

constexpr std::string_view usage =
    "usage: vit FILE [options]\n"
    "  FILE           images as lines: 64 pixels and the digit\n"
    "  --mesh DxM     processes along data x model (as square as possible)\n"
    "  --layers N     layers (2)\n"
    "  --embed N      width of the model (32)\n"
    "  --heads N      attention heads; N divides --embed (4)\n"
    "  --batch N      images of a step (64)\n"
    "  --epochs N     passes over the images at most (30)\n"
    "  --patience N   passes without a gain after which it ends (5)\n"
    "  --rate X       highest rate of learning (0.003)\n"
    "  --seed N       of weights and of the order of the images (1)\n"
    "  --log FILE     writes step, loss, accuracy and seconds as CSV, line by line\n"
    "  --plan         prints what a step communicates, with its bytes\n"
    "  --expect X     status 1 if the accuracy on the test images is lower\n";

/// The images of a batch and their digits.
template <class Rows>
void fill(const Images& images, const Labels& labels, const Rows& rows) {
  images.fill_by([&](const auto& at) {
    return static_cast<float>(rows[cleave::as_size(at[0])].pixels[cleave::as_size(8 * at[1] + at[2])]) / 16;
  });
  labels.fill_by([&](const auto& at) { return rows[cleave::as_size(at[0])].label; });
}

int run(examples::options& given, int ranks, bool speaks) {
  const auto number = [&](std::string_view name, std::int64_t otherwise) { return given.number(name, otherwise); };
  const std::int64_t depth = number("--layers", 2), width = number("--embed", 32), head_count = number("--heads", 4),
                     size = number("--batch", 64), epochs = number("--epochs", 30), patience = number("--patience", 5);
  const double rate = given.number("--rate", 0.003), expected = given.number_or_zero("--expect", 0.0);
  const auto seed = given.number_or_zero("--seed", std::uint64_t{1});
  const std::string log_path = given.text("--log");
  const bool shows_plan = given.flag("--plan");
  const std::array<long, 2> shape = examples::mesh_of(given.sizes("--mesh"), ranks);
  const std::string file = given.word();
  given.done();
  if (file.empty()) throw std::runtime_error("a file of images is missing, see --help");
  if (width % head_count != 0) throw std::runtime_error("--heads must divide --embed");
  const digits::data_set all = digits::read(file);
  const std::vector<digits::image> training = all.training(), testing = all.testing();

  const cleave::grid grid(mesh, MPI_COMM_WORLD, {shape[0], shape[1]});
  const auto made = [&]<class A>(A) {
    return nn::make_parameters<A>(grid, {layer = depth, embed = width, heads = head_count, head = width / head_count,
                                         hidden = 2 * width, position = 16});
  };
  auto p = made(Parameters{});
  nn::initialise(p, seed,
                 {{"*.bias", nn::zeros},
                  {"*.scale", nn::ones},
                  {"positions", nn::normal_values(0.02)},
                  {"layers.attention.out", nn::lecun_normal(layer, embed)},
                  {"layers.attention.*", nn::lecun_normal(layer, heads, head)},
                  {"layers.up.*", nn::lecun_normal(layer, hidden)},
                  {"layers.down.*", nn::lecun_normal(layer, embed)},
                  {"*", nn::lecun_normal()}});
  State state{made(Parameters{}), made(Parameters{}), Scalar(grid, {}), Scalar(grid, {})};
  Images images(grid, {size, 8, 8, 1}), tests(grid, {std::ssize(testing), 8, 8, 1});
  Labels labels(grid, {size}), answers(grid, {std::ssize(testing)});
  fill(tests, answers, testing);
  Scalar value(grid, {}), right(grid, {});
  if (speaks) {
    std::printf("%lld parameters on a mesh of %ld x %ld, %zu images\n", static_cast<long long>(nn::count_parameters(p)),
                shape[0], shape[1], training.size());
    if (shows_plan) {
      constexpr auto plan =
          cleave::plan<std::tuple<Parameters, State, Scalar>(Parameters, State, Images, Labels, float)>(step);
      std::printf("\n%s\n", explain(plan, {batch = size, layer = depth, embed = width, heads = head_count,
                                           head = width / head_count, hidden = 2 * width, position = 16,
                                           data = shape[0], model = shape[1]})
                                .c_str());
    }
  }

  cleave::io::loader<digits::image> loader(images, batch, std::ssize(training),
                                           [&](std::int64_t i) { return training[static_cast<std::size_t>(i)]; });
  cleave::io::data_position at{seed};
  const std::int64_t steps = epochs * loader.batches();
  const cleave::optim::cosine_decay schedule{rate, static_cast<double>(steps) / 20, static_cast<double>(steps)};
  cleave::optim::early_stopping stopping;
  examples::csv_log log(speaks, log_path, "step,loss,accuracy,seconds");
  examples::progress shown(speaks, steps, size, "images");
  examples::curve losses;
  const auto best = [&] { return stopping.best_step < 0 ? std::numeric_limits<double>::quiet_NaN() : -stopping.best; };
  while (at.next < steps && !stopping.stops({patience})) {
    fill(images, labels, loader.next(at));
    step(p, state, images, labels, static_cast<float>(schedule(at.next))).into(p, state, value);
    const double now = examples::finite_loss(static_cast<double>(value.item()));
    losses.add(now);
    double share = std::numeric_limits<double>::quiet_NaN();
    if (at.next % loader.batches() == 0) {
      right = accuracy(p, tests, answers);
      share = static_cast<double>(right.item());
      stopping.is_best(-share, at.next);
    }
    log.write({static_cast<double>(at.next), now, share, shown.seconds()});
    shown.show(at.next, {{"loss", now}, {"accuracy", best()}});
  }
  shown.leave();
  if (speaks)
    std::printf("%s\n%lld steps in %.1f s: accuracy %.3f, the best after step %lld\n", losses.drawn("loss").c_str(),
                static_cast<long long>(at.next), shown.seconds(), best(), static_cast<long long>(stopping.best_step));
  return best() >= expected ? 0 : 1;
}

} // namespace vit

int main(int argc, char** argv) { return examples::run(argc, argv, vit::usage, vit::run); }
