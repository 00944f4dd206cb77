// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What optimizers move, and the types of their state. Checked by compiling.
#include <cleave/optim/adafactor.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/optim/mixed.hpp>
#include <cleave/optim/sgd.hpp>
#include <cleave/plan/plan.hpp>

namespace {

using cleave::kind;
namespace optim = cleave::optim;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

template <auto Layout, class T = float>
using abstract = cleave::abstract<T, Layout>;
using Number = abstract<mesh()>;

template <class Up, class Bias>
struct linear {
  Up weight;
  Bias bias;
};
/// Every parameter sharded over data (FSDP).
template <template <class, auto> class Tensor = cleave::abstract>
struct scattered {
  linear<Tensor<float, mesh(embed / data, hidden)>, Tensor<float, mesh(hidden / data)>> up;
  Tensor<float, mesh(hidden / data, embed)> down;
};
/// Some sharded over model, some over both, some not.
template <template <class, auto> class Tensor = cleave::abstract>
struct mixed_layouts {
  Tensor<float, mesh(embed, hidden / model)> up;
  Tensor<cleave::bfloat16, mesh(layer, hidden / model, embed / data)> down;
  std::array<Tensor<double, mesh(embed / data / model)>, 2> scales;
  Tensor<float, mesh()> temperature;
};

// The state of Adafactor: without the last dim, and without the one before; the others keep their axes.
template <class Weights>
using State = optim::adafactor_state<Weights, Number>;
using Mixed = State<mixed_layouts<>>;
static_assert(std::same_as<decltype(State<scattered<>>{}.rows.up.weight), abstract<mesh(embed / data)>>);
static_assert(std::same_as<decltype(State<scattered<>>{}.columns.up.weight), abstract<mesh(hidden)>>);
static_assert(std::same_as<decltype(State<scattered<>>{}.rows.up.bias), abstract<mesh(hidden / data)>>);
static_assert(std::same_as<decltype(State<scattered<>>{}.columns.up.bias), Number>);
static_assert(std::same_as<decltype(Mixed{}.rows.down), abstract<mesh(layer, hidden / model)>>);
static_assert(std::same_as<decltype(Mixed{}.columns.down), abstract<mesh(layer, embed / data)>>);
static_assert(std::same_as<decltype(Mixed{}.rows.scales), std::array<abstract<mesh(embed / data / model), double>, 2>>);
static_assert(std::same_as<decltype(Mixed{}.columns.temperature), Number> &&
              std::same_as<decltype(Mixed{}.rows.temperature), Number>);
// Of tuples, templates over types and tensors as well; and of what a function computes with.
static_assert(
    std::same_as<
        optim::rows_of<std::tuple<abstract<mesh(embed, hidden)>, linear<Number, abstract<mesh(batch, layer, embed)>>>>,
        std::tuple<abstract<mesh(embed)>, linear<Number, abstract<mesh(batch, layer)>>>>);
static_assert(
    std::same_as<optim::columns_of<abstract<mesh(embed / data, hidden / model)>>, abstract<mesh(hidden / model)>>);
using Traced = optim::adafactor_state<scattered<cleave::traced>, cleave::traced<float, mesh()>>;
static_assert(std::same_as<cleave::detail::trace_type<State<scattered<>>>::type, Traced>);

/// How many messages the all-reduces of a plan are: adjacent ones of the same axes travel together.
template <class Plan>
constexpr int messages(const Plan& plan) {
  int n = 0;
  const cleave::step* last = nullptr;
  for (const cleave::step& s : Plan::plan_type::steps) {
    const bool reduces = s.kind == cleave::step_kind::move && s.move == kind::all_reduce;
    if (reduces && (last == nullptr || last->axes != s.axes)) ++n;
    last = reduces ? &s : nullptr;
  }
  return plan.accepted ? n : -1;
}

// Clipping moves one number for all leaves, and one more where other axes divide leaves too.
constexpr cleave::function clip([](auto g, auto limit) { return optim::clip_by_global_norm(g, limit); });
constexpr auto clipped = cleave::plan<scattered<>(scattered<>, float)>(clip);
static_assert(clipped.collectives() == 1 && clipped.count(kind::all_reduce) == 1);
static_assert(clipped.bytes({data = 4, model = 1}) == 2 * 3 * 4 / 4);
constexpr auto clipped_mixed = cleave::plan<mixed_layouts<>(mixed_layouts<>, float)>(clip);
static_assert(clipped_mixed.count(kind::all_reduce) == clipped_mixed.collectives() && messages(clipped_mixed) == 2);
// A norm that is asked for as well is the same one.
constexpr cleave::function clip_and_tell([](auto g) {
  return std::tuple(optim::clip_by_global_norm(g, 1.0), optim::global_norm(g));
});
static_assert(cleave::plan<std::tuple<scattered<>, Number>(scattered<>)>(clip_and_tell).collectives() == 1);

// Adafactor reduces its means along sharded dims, and numbers, in three messages: nothing is gathered, nothing is as
// large as a gradient. It stores the squares of one tensor at a time, and no update.
constexpr cleave::function factored([](auto w, auto s, auto g) { return optim::adafactor(w, s, g); });
constexpr auto adafactor =
    cleave::plan<std::tuple<scattered<>, State<scattered<>>>(scattered<>, State<scattered<>>, scattered<>)>(factored);
static_assert(adafactor.count(kind::all_reduce) == adafactor.collectives());
static_assert(adafactor.bytes({data = 4, model = 1, embed = 512, hidden = 1024}) <= 2 * 3 * 4 * (1024 + 512 + 8) / 4);
static_assert(messages(adafactor) == 3);
static_assert(adafactor.workspace({data = 4, model = 1, embed = 512, hidden = 1024}) < 5 * 512 * 1024 * 4 / 4 / 4);
constexpr auto adafactor_mixed =
    cleave::plan<std::tuple<mixed_layouts<>, Mixed>(mixed_layouts<>, Mixed, mixed_layouts<>)>(factored);
static_assert(adafactor_mixed.count(kind::all_reduce) == adafactor_mixed.collectives());

// Mixed precision: what is gathered for products is the copy of 16 bits.
constexpr cleave::function loss([](const auto& w, const auto& x) {
  const auto y = dot(gelu(dot(cast<cleave::bfloat16>(x), w.up.weight, embed) + w.up.bias), w.down, hidden);
  return mean(cast<float>(y * y));
});
using Batch = abstract<mesh(batch / data, embed)>;
using Scale = optim::loss_scale<Number>;
constexpr cleave::function step([](auto w, auto x, auto scale) {
  const auto [value, slope] = optim::mixed_value_and_grad<cleave::bfloat16>(loss, scale.scale, w, x);
  const auto finite = optim::all_finite(slope);
  const auto clipped = optim::clip_by_global_norm(slope, 1.0);
  const auto moved = cleave::tree_map([](const auto& p, const auto& g) { return p - 0.1 * g; }, w, clipped);
  return std::tuple(optim::select_tree(finite, moved, w), optim::next_loss_scale(scale, finite), value);
});
constexpr auto trained = cleave::plan<std::tuple<scattered<>, Scale, Number>(scattered<>, Batch, Scale)>(
    step, cleave::expect<batch, 65536>{}, cleave::expect<model, 1>{});
static_assert(trained.count(kind::all_gather) == 3 && trained.count(kind::reduce_scatter) == 3);
// Everything in 16 bits but three numbers: the loss, the norm, and whether all is finite.
static_assert(trained.bytes({data = 4, model = 1, batch = 65536, embed = 512, hidden = 1024}) <=
              3 * 2 * (2 * 512 * 1024 + 1024) * 2 / 4 + 3 * 2 * 3);

// Replicated weights and a sharded gradient: that is gathered once, not each result of the update.
using Replicated = abstract<mesh(embed, hidden)>;
using Sharded = abstract<mesh(embed / data, hidden)>;
constexpr cleave::function with_momentum([](auto w, auto velocity, auto slope) {
  return optim::sgd(cleave::value(w), cleave::value(velocity), cleave::value(slope), 0.1, 0.9);
});
constexpr auto momentum = cleave::plan<std::tuple<Replicated, Replicated>(Replicated, Replicated, Sharded)>(
    with_momentum);
static_assert(momentum.count(kind::all_gather) == 1 && momentum.collectives() == 1);
using Averages = optim::adam_state<Replicated, Number>;
constexpr cleave::function with_adam([](auto w, auto state, auto slope) {
  return optim::adam(cleave::value(w), state, cleave::value(slope), 0.001);
});
constexpr auto adam = cleave::plan<std::tuple<Replicated, Averages>(Replicated, Averages, Sharded)>(with_adam);
static_assert(adam.count(kind::all_gather) == 1 && adam.collectives() == 1);

} // namespace
