// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check_function.hpp"

#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/pipeline_gradient.hpp>

// Forward and backward passes of stages in turn give the loss and the gradient of a loop over the stages.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"microbatch"> microbatch;
inline constexpr cleave::dim<"stage"> stage;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"given"> given;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"class"> classes;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
inline constexpr cleave::nn::layout_rules in_stages{mesh, stage / ay, batch / ax};
inline constexpr cleave::nn::layout_rules plain{mesh};

template <template <class, auto> class Tensor, auto Rules>
struct stage_weights {
  Tensor<double, Rules(stage, embed, hidden)> up;
  Tensor<double, Rules(stage, hidden, embed)> down;
};
template <auto Rules>
struct model_in {
  template <template <class, auto> class Tensor>
  struct weights {
    Tensor<double, Rules(given, embed)> begin;
    stage_weights<Tensor, Rules> stages;
    Tensor<double, Rules(embed, classes)> end;
  };
};
template <template <class, auto> class Tensor>
struct samples {
  Tensor<double, in_stages(microbatch, batch, given)> x;
  Tensor<double, in_stages(microbatch, batch, classes)> wanted;
};

constexpr auto begin = [](const auto& w, const auto& s) { return dot(s.x, w, given); };
constexpr auto one_stage = [](const auto& x, const auto& w) {
  return x + dot(tanh(dot(x, w.up, embed)), w.down, hidden);
};
constexpr auto end = [](const auto& w, const auto& y, const auto& s) {
  const auto off = dot(tanh(y), w, embed) - s.wanted;
  return sum(off * off);
};
constexpr cleave::function in_turn([](const auto& w, const auto& s) {
  const auto pin = [](const auto& v) { return constrain(v, in_stages); };
  const auto [loss, slope] = cleave::nn::pipeline_value_and_grad(w, s, stage, microbatch, begin, one_stage, end, pin);
  return std::tuple(loss, slope);
});
constexpr auto all_at_once = cleave::value_and_grad(cleave::function(
    [](const auto& w, const auto& s) { return end(w.end, scan(stage, begin(w.begin, s), w.stages, one_stage), s); }));

TEST(pipeline_gradient, is_that_of_the_program_without_stages) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const std::int64_t count : {5, 2, 1})
      for (const std::int64_t stages : {4, 1}) {
        samples<cleave::tensor> s{{g, {count, 3, 2}}, {g, {count, 3, 3}}};
        using Staged = model_in<in_stages>::weights<cleave::tensor>;
        using Plain = model_in<plain>::weights<cleave::tensor>;
        const auto make = [&]<class Model>(Model*) {
          return Model{{g, {2, 4}}, {{g, {stages, 4, 5}}, {g, {stages, 5, 4}}}, {g, {4, 3}}};
        };
        const auto fill = [](auto& w) {
          support::fill(w.begin, 0.3);
          support::fill(w.stages.up, 0.8);
          support::fill(w.stages.down, 1.4);
          support::fill(w.end, 2.2);
        };
        Staged w = make(static_cast<Staged*>(nullptr)), slope = make(static_cast<Staged*>(nullptr));
        Plain same = make(static_cast<Plain*>(nullptr)), want = make(static_cast<Plain*>(nullptr));
        fill(w);
        fill(same);
        support::fill(s.x, 0.1);
        support::fill(s.wanted, 0.5);
        f64<mesh()> loss(g, {}), wanted_loss(g, {});
        in_turn(w, s).into(loss, slope);
        all_at_once(same, s).into(wanted_loss, want);
        EXPECT_NEAR(loss.item(), wanted_loss.item(), 1e-12 * wanted_loss.item());
        const auto compare = [&](const auto& got, const auto& meant) {
          const auto a = got.to_global(), b = meant.to_global();
          ASSERT_EQ(a.size(), b.size());
          for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-11) << i;
        };
        compare(slope.begin, want.begin);
        compare(slope.stages.up, want.stages.up);
        compare(slope.stages.down, want.stages.down);
        compare(slope.end, want.end);
      }
}

} // namespace CLEAVE_SOURCE
