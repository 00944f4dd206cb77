// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/pipeline_gradient.hpp>
#include <cleave/study/study.hpp>

#include <gtest/gtest.h>

// Memory and messages of a pipeline if forward and backward passes take turns. Its values: tests/mpi.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"pipe axis"> piped;
inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{piped, data};
inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"microbatch"> microbatch;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::nn::layout_rules rules{mesh, stage / piped, batch / data};
constexpr auto pin = [](const auto& v) { return constrain(v, rules); };

template <template <class, auto> class Tensor>
struct maps {
  Tensor<float, rules(stage, embed, hidden)> up;
  Tensor<float, rules(stage, hidden, embed)> down;
};
template <template <class, auto> class Tensor>
struct model {
  Tensor<float, rules(embed)> begin;
  maps<Tensor> stages;
  Tensor<float, rules(embed)> end;
};
using Model = model<cleave::abstract>;
using X = cleave::abstract<float, rules(microbatch, batch, embed)>;
using Number = cleave::abstract<float, mesh()>;

constexpr auto begin = [](const auto& w, const auto& x) { return x * w; };
constexpr auto one_stage = [](const auto& x, const auto& w) {
  return x + dot(tanh(dot(x, w.up, embed)), w.down, hidden);
};
constexpr auto loss = [](const auto& w, const auto& y) { return sum(exp(y * w)); };
constexpr cleave::function in_turn([](const auto& w, const auto& x) {
  const auto end = [](const auto& last, const auto& y, const auto&) { return loss(last, y); };
  const auto [value, slope] = cleave::nn::pipeline_value_and_grad(w, x, stage, microbatch, begin, one_stage, end, pin);
  return std::tuple(value, slope);
});
constexpr auto all_forward_first = cleave::value_and_grad(cleave::function([](const auto& w, const auto& x) {
  return loss(w.end, cleave::nn::pipeline(begin(w.begin, x), w.stages, {stage, microbatch}, one_stage, pin));
}));

cleave::studied_plan planned(const cleave::study& s, std::int64_t stages, std::int64_t microbatches) {
  return s.plan(
      {stage = stages, microbatch = microbatches, batch = 64, embed = 128, hidden = 512, piped = stages, data = 2});
}

TEST(pipeline_gradient, keeps_microbatches_in_flight_alone) {
  using signature = std::tuple<Number, Model>(Model, X);
  const auto turns = cleave::study::of<signature>(in_turn), gpipe = cleave::study::of<signature>(all_forward_first);
  const std::int64_t one = 32 * 128 * 4; // bytes of a microbatch on a device
  const auto workspace = [](const cleave::studied_plan& p) { return p.memory().workspace.total(); };
  for (const std::int64_t stages : {1, 4}) {
    const auto few = planned(turns, stages, 8), many = planned(turns, stages, 64);
    // But for counters of the ticks.
    EXPECT_LE(workspace(many) - workspace(few), 1024) << stages;
    EXPECT_GE(workspace(planned(gpipe, stages, 64)) - workspace(planned(gpipe, stages, 8)), 56 * 4 * one) << stages;
  }
  // Each stage more keeps two arguments more.
  EXPECT_LE(workspace(planned(turns, 8, 64)) - workspace(planned(turns, 4, 64)), 2 * 4 * one + 1024);
}

TEST(pipeline_gradient, sends_to_neighbours_and_reduces_once) {
  const auto s = cleave::study::of<std::tuple<Number, Model>(Model, X)>(in_turn);
  const std::int64_t few = planned(s, 4, 8).bytes(), many = planned(s, 4, 64).bytes();
  // Of each of the 56 ticks more: to the next device and to the one before, out of the last stage and of the first.
  EXPECT_LE(many - few, 56 * 4 * 32 * 128 * 4);
  EXPECT_GE(many - few, 56 * 2 * 32 * 128 * 4);
  EXPECT_EQ(planned(s, 1, 64).bytes(), planned(s, 1, 8).bytes());
}

} // namespace CLEAVE_SOURCE
