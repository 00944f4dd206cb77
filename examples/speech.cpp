// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Conformer (Gulati et al. 2020) that hears a sound in every frame of a recording. Its layers are the stages of a
// pipeline over `pipe`, through which the parts of a batch follow each other. Inside a stage, heads, hidden units and
// channels of the convolution are sharded over `model`. The utterances are made up, and a frame alone does not
// determine its class: low and high sounds differ by the voice, and those that rise or fall by the frames around.
//
//   mpirun -n 4 speech [--mesh 2x2] [--steps 300]
#include "conformer.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/loader.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/initial_values.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/schedule.hpp>

#include <array>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace speech {

using namespace conformers;

inline constexpr cleave::axis<"pipe"> pipe;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{pipe, model};
inline constexpr cleave::dim<"band", 20> band; // of frequencies
inline constexpr cleave::dim<"sound", 6> sound;

inline constexpr auto layout = nn::model_layout{
    nn::layout_rules{mesh, nn::after(layer, stage / pipe), heads / model, hidden / model, inner / model},
    nn::layout_rules{mesh, stage / pipe, nn::before(batch, microbatch), heads / model, hidden / model,
                     inner /
                         model}}.scheduled(nn::pipelined{stage, microbatch});

template <template <class, auto> class Tensor>
struct parameters {
  template <auto... D>
  using parameter = Tensor<float, layout.parameters(D...)>;
  nn::linear_weights<parameter<band, embed>, parameter<embed>> bands;
  typename conformer<layout.parameters>::template in<Tensor> layers;
  nn::linear_weights<parameter<embed, sound>, parameter<sound>> answer;
};
using Parameters = parameters<cleave::tensor>;
using Scalar = cleave::tensor<float, mesh()>;
using State = cleave::optim::adam_state<Parameters, Scalar>;
using Frames = cleave::tensor<float, layout.activations(batch, position, band)>;
using Sounds = cleave::tensor<std::int32_t, layout.activations(batch, position)>;

constexpr cleave::function scores([](const auto& p, const auto& frames) {
  const auto start = constrain(nn::linear(frames, p.bands, band), layout.activations);
  return nn::linear(encoded<layout>(start, p.layers), p.answer, embed);
});
constexpr cleave::function loss([](const auto& p, const auto& frames, const auto& sounds) {
  return mean(nn::cross_entropy(scores(p, frames), sounds, sound));
});
template <class Body>
constexpr auto planned(Body body) {
  using cleave::expect;
  return cleave::with(cleave::function(body), expect<microbatch, 4>{}, expect<batch, 4>{}, expect<position, 48>{},
                      expect<source, 48>{}, expect<stage, 2>{}, expect<layer, 2>{}, expect<embed, 32>{},
                      expect<inner, 32>{}, expect<hidden, 64>{}, expect<heads, 4>{}, expect<head, 8>{},
                      expect<pipe, 2>{}, expect<model, 2>{});
}
constexpr auto step = planned(
    [](const auto& p, const auto& state, const auto& frames, const auto& sounds, const auto& rate) {
      const auto [value, slope] = cleave::value_and_grad(loss)(p, frames, sounds);
      return std::tuple_cat(cleave::optim::adam(p, state, slope, rate), std::tuple(value));
    });
constexpr auto accuracy = planned([](const auto& p, const auto& frames, const auto& sounds) {
  return mean(cast<float>(argmax(scores(p, frames), sound) == sounds));
});

// In both passes a tick moves one microbatch to the next stage, and the results leave the last stage. Otherwise only
// the sums of the devices of a stage are put together, and at the end the gradient that leaves the first stage.
constexpr auto step_plan =
    cleave::plan<std::tuple<Parameters, State, Scalar>(Parameters, State, Frames, Sounds, float)>(step);
static_assert(step_plan.count(cleave::kind::exchange) == 3 && step_plan.count(cleave::kind::all_reduce) == 13 &&
              step_plan.collectives() == 16);

/// A made-up utterance: sounds of some frames each, one after the other, by a voice of its own.
struct utterance {
  enum : int { pause, hiss, low, high, rising, falling };
  static constexpr int bands = 20;
  std::vector<float> energies; // logarithms, [frame, band]
  std::vector<int> sounds; // [frame]

  utterance(std::int64_t number, std::int64_t frames) {
    auto drawn = [next = number << 20](double lowest, double highest) mutable {
      return lowest + (highest - lowest) * examples::noise(next++);
    };
    const double voice = drawn(1, 9); // the band of its low tone
    while (std::ssize(sounds) < frames) {
      const int kind = static_cast<int>(drawn(0, 6)), length = static_cast<int>(drawn(4, 10));
      for (int i = 0; i < length && std::ssize(sounds) < frames; ++i) {
        const double along = static_cast<double>(i) / (length - 1);
        const double above = kind == rising ? along : kind == falling ? 1 - along : kind == high ? 1 : 0;
        for (int b = 0; b < bands; ++b) {
          const double off = b - voice - 4 * above, overtone = off - 5;
          double power = std::exp(-off * off) + 0.5 * std::exp(-overtone * overtone);
          if (kind == pause) power = 0;
          if (kind == hiss) power = drawn(0, 0.5);
          energies.push_back(static_cast<float>(1 + std::log(power + 0.02 - 0.1 * std::log(1 - drawn(0, 1))) / 2));
        }
        sounds.push_back(kind);
      }
    }
  }
};

constexpr std::string_view usage =
    "usage: speech [options]\n"
    "  --mesh PxM        processes along stages x heads, hidden units and channels (as square as possible)\n"
    "  --layers N        layers; --stages divides N (4)\n"
    "  --stages N        stages of the pipeline, on any number of processes (4)\n"
    "  --embed N         width of the model (32)\n"
    "  --heads N         attention heads; N divides --embed (4)\n"
    "  --frames N        frames of an utterance (48)\n"
    "  --microbatches N  parts of a batch, which follow each other through the stages (4)\n"
    "  --batch N         utterances of a part (4)\n"
    "  --steps N         steps of training (300)\n"
    "  --rate X          highest rate of learning (0.005)\n"
    "  --seed N          of weights and of the order of the utterances (1)\n"
    "  --log FILE        writes step, loss and seconds as CSV, line by line\n"
    "  --plan            prints what a step communicates, with its bytes\n"
    "  --expect X        status 1 if a smaller share of the frames of other utterances is heard right\n";

int run(examples::options& given, int ranks, bool speaks) {
  const auto number = [&](std::string_view name, std::int64_t otherwise) { return given.number(name, otherwise); };
  const std::int64_t depth = number("--layers", 4), stages = number("--stages", 4), width = number("--embed", 32),
                     head_count = number("--heads", 4), frame_count = number("--frames", 48),
                     parts = number("--microbatches", 4), size = number("--batch", 4), steps = number("--steps", 300);
  const double rate = given.number("--rate", 0.005), expected = given.number_or_zero("--expect", 0.0);
  const auto seed = given.number_or_zero("--seed", std::uint64_t{1});
  const std::string log_path = given.text("--log");
  const bool shows_plan = given.flag("--plan");
  const std::array<long, 2> shape = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  if (width % head_count != 0) throw std::runtime_error("--heads must divide --embed");
  const std::int64_t of_stage = nn::layers_of_a_stage(depth, stages);

  const cleave::grid grid(mesh, MPI_COMM_WORLD, {shape[0], shape[1]});
  const auto made = [&]<class A>(A) {
    return nn::make_parameters<A>(grid, {microbatch = parts, batch = size, position = frame_count, stage = stages,
                                         layer = of_stage, embed = width, inner = width, hidden = 2 * width,
                                         heads = head_count, head = width / head_count});
  };
  auto p = made(Parameters{});
  nn::initialise(p, seed,
                 {{"*.bias", nn::zeros},
                  {"*.scale", nn::ones},
                  {"bands.kernel", nn::lecun_normal(embed)},
                  {"answer.kernel", nn::lecun_normal(sound)},
                  {"layers.attention.out", nn::lecun_normal(layer, stage, embed)},
                  {"layers.attention.*", nn::lecun_normal(layer, stage, heads, head)},
                  {"*.up", nn::lecun_normal(layer, stage, hidden)},
                  {"*.down", nn::lecun_normal(layer, stage, embed)},
                  {"layers.out", nn::lecun_normal(layer, stage, embed)},
                  {"*", nn::lecun_normal(layer, stage, inner)}});
  State state{made(Parameters{}), made(Parameters{}), Scalar(grid, {}), Scalar(grid, {})};
  auto frames = made(Frames{});
  auto sounds = made(Sounds{});
  Scalar value(grid, {});
  if (speaks) {
    std::printf("%lld parameters in %lld stages on a mesh of %ld x %ld\n",
                static_cast<long long>(nn::count_parameters(p)), static_cast<long long>(stages), shape[0], shape[1]);
    if (shows_plan)
      std::printf("\n%s\n", explain(step_plan,
                                    {microbatch = parts, batch = size, position = frame_count, source = frame_count,
                                     stage = stages, layer = of_stage, embed = width, inner = width, hidden = 2 * width,
                                     heads = head_count, head = width / head_count, pipe = shape[0], model = shape[1]})
                                .c_str());
  }

  // A row of the batch is an utterance of each microbatch.
  using row = std::vector<utterance>;
  const auto row_number = [&](std::int64_t i) {
    row all;
    for (std::int64_t m = 0; m < parts; ++m) all.emplace_back(i * parts + m, frame_count);
    return all;
  };
  const auto fill = [&](const cleave::io::loaded_rows<row>& rows) {
    const auto at = [&](const auto& i) -> const utterance& { return rows[i[1]][cleave::as_size(i[0])]; };
    frames.fill_by([&](const auto& i) { return at(i).energies[cleave::as_size(i[2] * utterance::bands + i[3])]; });
    sounds.fill_by([&](const auto& i) { return at(i).sounds[cleave::as_size(i[2])]; });
  };
  const std::int64_t rows = 64 * size;
  cleave::io::loader<row> loader(frames, batch, rows, row_number);
  cleave::io::data_position at{seed};
  const cleave::optim::cosine_decay schedule{rate, static_cast<double>(steps) / 20, static_cast<double>(steps)};
  examples::csv_log log(speaks, log_path, "step,loss,seconds");
  examples::progress shown(speaks, steps, parts * size, "utterances");
  examples::curve losses;
  while (at.next < steps) {
    fill(loader.next(at));
    step(p, state, frames, sounds, static_cast<float>(schedule(at.next))).into(p, state, value);
    const double now = examples::finite_loss(static_cast<double>(value.item()));
    losses.add(now);
    log.write({static_cast<double>(at.next), now, shown.seconds()});
    shown.show(at.next, {{"loss", now}});
  }
  shown.leave();

  cleave::io::loader<row> others(frames, batch, size, [&](std::int64_t i) { return row_number(rows + i); });
  cleave::io::data_position first;
  fill(others.next(first));
  value = accuracy(p, frames, sounds);
  const double right = static_cast<double>(value.item());
  if (speaks)
    std::printf("%s\n%.3f of the frames of other utterances are heard right\n", losses.drawn("loss").c_str(), right);
  return right >= expected ? 0 : 1;
}

} // namespace speech

int main(int argc, char** argv) { return examples::run(argc, argv, speech::usage, speech::run); }
