// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A forecast of rain in the manner of MetNet (Sønderby et al. 2020): dilated convolutions over two radar images give
// the image some minutes later. The images are sharded over space: every process has a part of each, and convolutions
// exchange the places that their windows see beyond it. The rain is made up: showers that drift.
//
//   mpirun -n 4 spatial [--mesh 2x2] [--steps 300] [--size 32]
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/io/loader.hpp>
#include <cleave/nn/convolution.hpp>
#include <cleave/nn/initial_values.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/schedule.hpp>

#include <array>
#include <cmath>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace spatial {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};

inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"frame", 2> frame; // the image before and the image now
inline constexpr cleave::dim<"feature"> feature;
inline constexpr cleave::dim<"next"> next; // a feature of the next layer
inline constexpr cleave::dim<"kr", 3> kr; // the windows
inline constexpr cleave::dim<"kc", 3> kc;

template <template <class, auto> class Tensor>
struct parameters {
  using block = nn::linear_weights<Tensor<float, mesh(kr, kc, feature, next)>, Tensor<float, mesh(next)>>;
  nn::linear_weights<Tensor<float, mesh(kr, kc, frame, feature)>, Tensor<float, mesh(feature)>> first;
  block near, middle, far;
  Tensor<float, mesh(feature)> answer;
};
using Parameters = parameters<cleave::tensor>;
using Scalar = cleave::tensor<float, mesh()>;
using State = cleave::optim::adam_state<Parameters, Scalar>;
using Frames = cleave::tensor<float, mesh(batch, row / ay, col / ax, frame)>;
using Images = cleave::tensor<float, mesh(batch, row / ay, col / ax)>;

constexpr cleave::function forecast([](const auto& p, const auto& frames) {
  // Windows of 3 x 3 places that are `apart` from each other: the surroundings that a place sees grow fast.
  const auto seen = [](const auto& x, const auto& w, const auto& channel, std::int64_t apart) {
    return relu(
        nn::convolution(x, w, channel, nn::centred(row, row, kr, 1, apart), nn::centred(col, col, kc, 1, apart)));
  };
  const auto block = [&](const auto& x, const auto& w, std::int64_t apart) {
    return x + rename(seen(x, w, feature, apart), next, feature);
  };
  const auto near = block(seen(frames, p.first, frame, 1), p.near, 1);
  return dot(block(block(near, p.middle, 2), p.far, 4), p.answer, feature);
});
constexpr cleave::function loss([](const auto& p, const auto& frames, const auto& later) {
  const auto off = forecast(p, frames) - later;
  return mean(off * off);
});
template <class Body>
constexpr auto planned(Body body) {
  return cleave::with(cleave::function(body), cleave::expect<batch, 16>{}, cleave::expect<row, 32>{},
                      cleave::expect<col, 32>{}, cleave::expect<feature, 8>{}, cleave::expect<next, 8>{});
}
constexpr auto step = planned(
    [](const auto& p, const auto& state, const auto& frames, const auto& later, const auto& rate) {
      const auto [value, slope] = cleave::value_and_grad(loss)(p, frames, later);
      return std::tuple_cat(cleave::optim::adam(p, state, slope, rate), std::tuple(value));
    });
constexpr auto error = planned(
    [](const auto& p, const auto& frames, const auto& later) { return loss(p, frames, later); });

/// Showers over a square of length 1, and where they drift between two images.
struct weather {
  struct shower {
    double row, col, width, to_row, to_col;
  };
  std::array<shower, 3> showers;

  explicit weather(std::int64_t number) {
    std::mt19937_64 random(static_cast<std::uint64_t>(number));
    const auto drawn = [&](double low, double high) {
      return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
    };
    for (shower& s : showers) {
      const double at_row = drawn(0, 1), at_col = drawn(0, 1), width = drawn(0.05, 0.12);
      const double to_row = drawn(-0.04, 0.04), to_col = drawn(-0.04, 0.04);
      s = {at_row, at_col, width, to_row, to_col};
    }
  }
  /// The rain at a place, so many images after the first one.
  float rain(double at_row, double at_col, double time) const {
    double all = 0;
    for (const shower& s : showers) {
      const double down = (at_row - s.row - time * s.to_row) / s.width,
                   across = (at_col - s.col - time * s.to_col) / s.width;
      all += std::exp(-(down * down + across * across) / 2);
    }
    return static_cast<float>(all);
  }
};
/// How many images after the second one the forecast is for.
constexpr double lead = 3;

constexpr std::string_view usage =
    "usage: spatial [options]\n"
    "  --mesh RxC     processes along rows x columns of the images (as square as possible)\n"
    "  --size N       rows and columns of an image (32)\n"
    "  --features N   channels of the convolutions (8)\n"
    "  --batch N      images of a step (16)\n"
    "  --steps N      steps of training (300)\n"
    "  --rate X       highest rate of learning (0.01)\n"
    "  --seed N       of weights and of the order of the images (1)\n"
    "  --log FILE     writes step, loss and seconds as CSV, line by line\n"
    "  --plan         prints the collectives of a step, with their bytes\n"
    "  --expect X     status 1 if the error, over that of rain that stays where it is, is higher than X\n";

int run(examples::options& given, int ranks, bool speaks) {
  const auto number = [&](std::string_view name, std::int64_t otherwise) { return given.number(name, otherwise); };
  const std::int64_t size = number("--size", 32), width = number("--features", 8), images = number("--batch", 16),
                     steps = number("--steps", 300);
  const double rate = given.number("--rate", 0.01), expected = given.number_or_zero("--expect", 0.0);
  const auto seed = given.number_or_zero("--seed", std::uint64_t{1});
  const std::string log_path = given.text("--log");
  const bool shows_plan = given.flag("--plan");
  const std::array<long, 2> shape = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();

  const cleave::grid grid(mesh, MPI_COMM_WORLD, {shape[0], shape[1]});
  const auto made = [&]<class A>(A) { return nn::make_parameters<A>(grid, {feature = width, next = width}); };
  auto p = made(Parameters{});
  nn::initialise(p, seed,
                 {{"*.bias", nn::zeros},
                  {"first.kernel", nn::he_normal(feature)},
                  {"answer", nn::normal_values(0.1)},
                  {"*", nn::he_normal(next)}});
  State state{made(Parameters{}), made(Parameters{}), Scalar(grid, {}), Scalar(grid, {})};
  Frames frames(grid, {images, size, size, 2});
  Images later(grid, {images, size, size});
  Scalar value(grid, {});
  const auto at_place = [&](std::int64_t i) { return (static_cast<double>(i) + 0.5) / static_cast<double>(size); };
  const auto fill = [&](const auto& rows) {
    frames.fill_by([&](const auto& i) {
      return rows[cleave::as_size(i[0])].rain(at_place(i[1]), at_place(i[2]), static_cast<double>(i[3]));
    });
    later.fill_by(
        [&](const auto& i) { return rows[cleave::as_size(i[0])].rain(at_place(i[1]), at_place(i[2]), 1 + lead); });
  };
  if (speaks) {
    std::printf("%lld parameters, images of %lld x %lld places on a mesh of %ld x %ld\n",
                static_cast<long long>(nn::count_parameters(p)), static_cast<long long>(size),
                static_cast<long long>(size), shape[0], shape[1]);
    if (shows_plan) {
      constexpr auto plan =
          cleave::plan<std::tuple<Parameters, State, Scalar>(Parameters, State, Frames, Images, float)>(step);
      std::printf("\n%s\n", explain(plan, {batch = images, row = size, col = size, feature = width, next = width,
                                           ay = shape[0], ax = shape[1]})
                                .c_str());
    }
  }

  cleave::io::loader<weather> loader(frames, batch, 4096, [](std::int64_t i) { return weather(i); });
  cleave::io::data_position at{seed};
  const cleave::optim::cosine_decay schedule{rate, static_cast<double>(steps) / 20, static_cast<double>(steps)};
  examples::csv_log log(speaks, log_path, "step,loss,seconds");
  examples::progress shown(speaks, steps, images, "images");
  examples::curve losses;
  while (at.next < steps) {
    fill(loader.next(at));
    step(p, state, frames, later, static_cast<float>(schedule(at.next))).into(p, state, value);
    const double now = examples::finite_loss(static_cast<double>(value.item()));
    losses.add(now);
    log.write({static_cast<double>(at.next), now, shown.seconds()});
    shown.show(at.next, {{"loss", now}});
  }
  shown.leave();

  // Other weather. Rain that stays where it is has the error of the image now.
  std::vector<weather> others;
  for (std::int64_t i = 0; i < images; ++i) others.emplace_back(-1 - i);
  double staying = 0;
  for (const weather& w : others)
    for (std::int64_t r = 0; r < size; ++r)
      for (std::int64_t c = 0; c < size; ++c) {
        const double off = static_cast<double>(w.rain(at_place(r), at_place(c), 1 + lead)) -
                           static_cast<double>(w.rain(at_place(r), at_place(c), 1));
        staying += off * off / static_cast<double>(size * size * images);
      }
  fill(others);
  value = error(p, frames, later);
  const double share = static_cast<double>(value.item()) / staying;
  if (speaks)
    std::printf("%s\nthe error is %.3f of that of rain that stays where it is\n", losses.drawn("loss").c_str(), share);
  return expected == 0 || share <= expected ? 0 : 1;
}

} // namespace spatial

int main(int argc, char** argv) { return examples::run(argc, argv, spatial::usage, spatial::run); }
