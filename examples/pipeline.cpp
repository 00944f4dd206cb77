// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers in the stages of a pipeline, inside of which each is sharded as Megatron does, beside data parallelism: three
// axes, nested by a table. A student of many residual layers learns what a teacher makes of random numbers, with the
// schedule of GPipe or with the circular one, in which every device has two shorter stages and waits half as long. The
// losses of both are the same.
//
//   mpirun -n 4 pipeline [--schedule gpipe|circular] [--mesh 1x2x2] [--layers 8] [--stages 2] [--microbatches 8]
// [--batch 16] [--embed 32] [--steps 60] [--log FILE.csv]
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/adam.hpp>

#include <cmath>
#include <cstdio>

namespace stages {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"pipe"> pipe;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, pipe, model};
inline constexpr cleave::dim<"batch"> batch; // sentences of a microbatch
inline constexpr cleave::dim<"microbatch"> microbatch;
inline constexpr cleave::dim<"round", 2> round; // of the circular schedule
inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"layer"> layer; // layers of a stage
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

inline constexpr nn::layout_rules activations{mesh, stage / pipe, nn::before(batch, microbatch), batch / data,
                                              hidden / model};
inline constexpr auto gpipe =
    nn::model_layout{nn::layout_rules{mesh, nn::after(layer, stage / pipe), hidden / model}, activations}.scheduled(
        nn::pipelined{stage, microbatch});
inline constexpr auto circular = nn::model_layout{nn::layout_rules{mesh, nn::before(layer, round),
                                                                   nn::after(layer, stage / pipe), hidden / model},
                                                  activations}
                                     .scheduled(nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, 2>{});

template <auto Layout>
struct network {
  template <template <class, auto> class Tensor>
  struct parameters {
    nn::norm_weights<Tensor<float, Layout.parameters(layer, embed)>> norm;
    nn::linear_weights<Tensor<float, Layout.parameters(layer, embed, hidden)>,
                       Tensor<float, Layout.parameters(layer, hidden)>>
        up;
    nn::linear_weights<Tensor<float, Layout.parameters(layer, hidden, embed)>,
                       Tensor<float, Layout.parameters(layer, embed)>>
        down;
  };
  using Parameters = parameters<cleave::tensor>;
  using Batch = cleave::tensor<float, Layout.activations(batch, embed)>;
  using Loss = cleave::tensor<float, mesh()>;
  using State = cleave::optim::adam_state<Parameters, Loss>;

  struct apply {
    template <class P, class X>
    constexpr auto operator()(const P& p, const X& x) const {
      return nn::blocks(Layout, layer, x, p, [](const auto& h, const auto& w) {
        constexpr auto pin = [](const auto& v) { return constrain(v, Layout.activations); };
        return h + nn::feed_forward(
                       nn::layer_norm(h, w.norm, embed), w.up, w.down, embed, hidden,
                       [](const auto& v) { return gelu(v); }, pin);
      });
    }
  };
  struct loss {
    template <class P, class X>
    constexpr auto operator()(const P& p, const X& x, const X& wanted) const {
      const auto off = apply{}(p, x) - wanted;
      return mean(off * off);
    }
  };
  struct step {
    template <class P, class S, class X, class R>
    constexpr auto operator()(const P& p, const S& state, const X& x, const X& wanted, const R& rate) const {
      auto [value, slope] = cleave::value_and_grad(cleave::function{loss{}})(p, x, wanted);
      auto [updated, after] = cleave::optim::adam(p, state, slope, rate);
      return std::tuple(updated, after, value);
    }
  };
  template <class Body>
  static constexpr auto planned(Body) {
    using cleave::expect;
    return cleave::with(cleave::function{Body{}}, expect<batch, 16>{}, expect<microbatch, 8>{}, expect<stage, 2>{},
                        expect<layer, 4>{}, expect<embed, 32>{}, expect<hidden, 128>{}, expect<data, 2>{},
                        expect<pipe, 2>{}, expect<model, 2>{});
  }
};

// A tick moves one microbatch to the next stage, and the sums that the devices of a stage have are put together; the
// results leave the last stage.
template <auto Layout>
constexpr auto forward_plan = cleave::plan<typename network<Layout>::Batch(typename network<Layout>::Parameters,
                                                                           typename network<Layout>::Batch)>(
    network<Layout>::planned(typename network<Layout>::apply{}));
static_assert(forward_plan<gpipe>.count(cleave::kind::exchange) == 2 &&
              forward_plan<gpipe>.count(cleave::kind::all_reduce) == 1 && forward_plan<gpipe>.collectives() == 3);
static_assert(forward_plan<circular>.count(cleave::kind::exchange) == 2 && forward_plan<circular>.collectives() == 3);

struct sizes {
  long layers, stages, microbatches, batch, embed, steps;
  std::string log;
};

template <auto Layout>
int train(const cleave::grid& grid, const sizes& s, bool speaks) {
  using net = network<Layout>;
  constexpr int rounds = Layout.schedule.rounds;
  const long parts = s.stages * rounds;
  const std::int64_t of_stage = nn::layers_of_a_stage(s.layers, parts);
  const auto made = [&]<class A>(A) {
    return nn::make_parameters<A>(grid, {batch = s.batch, microbatch = s.microbatches, stage = s.stages,
                                         layer = of_stage, embed = s.embed, hidden = 4 * s.embed});
  };
  // Layer r * stages * layers + s * layers + l of the whole: the same numbers in all schedules and on all meshes.
  const auto draw = [&](auto& all, double deviation, std::int64_t first) {
    nn::for_each_tensor(all, [&, tensor = std::int64_t{0}](auto& t) mutable {
      const auto extents = t.extents();
      t.fill_by([&](const auto& at) {
        constexpr std::size_t front = rounds > 1 ? 3 : 2; // [round], layer, stage
        std::int64_t index = ((rounds > 1 ? at[0] : 0) * s.stages + at[front - 1]) * of_stage + at[front - 2];
        for (std::size_t d = front; d < at.size(); ++d) index = index * extents[d] + at[d];
        const double u = 2 * examples::noise(first + 7919 * tensor + index) - 1;
        return static_cast<float>(tensor == 0 ? 1 : deviation * u);
      });
      ++tensor;
    });
  };
  auto student = made(typename net::Parameters{}), teacher = made(typename net::Parameters{});
  draw(student, 0.05, 0);
  draw(teacher, 0.2, 1000003);
  auto x = made(typename net::Batch{}), wanted = made(typename net::Batch{});
  typename net::Loss value(grid, {});
  typename net::State state{made(typename net::Parameters{}), made(typename net::Parameters{}),
                            typename net::Loss(grid, {}), typename net::Loss(grid, {})};

  constexpr auto forward = net::planned(typename net::apply{});
  constexpr auto step = net::planned(typename net::step{});
  if (speaks) {
    const long ticks = s.microbatches * rounds + s.stages - 1;
    std::printf(
        "%ld layers in %ld stages, %ld microbatches: %ld ticks, %.0f %% of them spent waiting; the plan of the forward "
        "pass:\n\n%s\n",
        s.layers, parts, s.microbatches, ticks, 100.0 * static_cast<double>(s.stages - 1) / static_cast<double>(ticks),
        explain(forward_plan<Layout>,
                {batch = s.batch, microbatch = s.microbatches, stage = s.stages, layer = of_stage, embed = s.embed,
                 hidden = 4 * s.embed, data = grid.size(data), pipe = grid.size(pipe), model = grid.size(model)})
            .c_str());
  }
  examples::csv_log log(speaks, s.log, "step,loss,seconds");
  examples::progress shown(speaks, s.steps, s.microbatches * s.batch, "rows");
  double first = 0, last = 0, start = 0;
  for (long i = 0; i < s.steps; ++i) {
    x.fill_by([&](const auto& at) {
      return static_cast<float>(
          2 * examples::noise(((i * s.microbatches + at[0]) * s.batch + at[1]) * s.embed + at[2]) - 1);
    });
    wanted = forward(teacher, x);
    if (i == 1) start = MPI_Wtime(); // the first step allocates
    step(student, state, x, wanted, 0.003f).into(student, state, value);
    last = value.item();
    if (i == 0) first = last;
    log.write({static_cast<double>(i + 1), last, shown.seconds()});
    shown.show(i + 1, {{"loss", last}});
  }
  shown.leave();
  const bool right = last < 0.5 * first;
  if (speaks)
    std::printf("%.2f ms a step; %s\n", 1e3 * (MPI_Wtime() - start) / static_cast<double>(std::max(s.steps - 1, 1L)),
                right ? "learned" : "WRONG");
  return right ? 0 : 1;
}

constexpr std::string_view usage =
    "usage: pipeline [options]\n"
    "  --schedule NAME   gpipe or circular (gpipe)\n"
    "  --mesh DxPxM      processes along data x stages x hidden units (1 x ranks x 1)\n"
    "  --layers N        layers (8)\n"
    "  --stages N        stages, of a round (the processes along them)\n"
    "  --microbatches N  parts of a batch; with circular a multiple of the stages (8)\n"
    "  --batch N         rows of a microbatch (16)\n"
    "  --embed N         numbers of a row (32)\n"
    "  --steps N         steps of training (60)\n"
    "  --log FILE.csv    writes step, loss and seconds, line by line\n";

int run(examples::options& given, int ranks, bool speaks) {
  const std::string schedule = given.text("--schedule", "gpipe"), shape = given.text("--mesh", "");
  const std::vector<long> asked = shape.empty() ? std::vector<long>{1, ranks, 1}
                                                : examples::options::numbers_in("--mesh", shape, 3);
  sizes s{};
  s.layers = given.number("--layers", 8L);
  s.stages = given.number("--stages", asked[1]);
  s.microbatches = given.number("--microbatches", 8L);
  s.batch = given.number("--batch", 16L);
  s.embed = given.number("--embed", 32L);
  s.steps = given.number("--steps", 60L);
  s.log = given.text("--log");
  given.done();
  if (schedule != "gpipe" && schedule != "circular")
    throw std::runtime_error("there is no schedule '" + schedule + "', only gpipe and circular");
  const cleave::grid grid(mesh, MPI_COMM_WORLD, {asked[0], asked[1], asked[2]});
  return schedule == "gpipe" ? train<gpipe>(grid, s, speaks) : train<circular>(grid, s, speaks);
}

} // namespace stages

int main(int argc, char** argv) { return examples::run(argc, argv, stages::usage, stages::run); }
