// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "evaluated.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/adafactor.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/optim/mixed.hpp>
#include <cleave/optim/sgd.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Optimizers on tensors: their states are made from the types of the weights, and every mesh computes what the plain
// evaluator does.

namespace CLEAVE_SOURCE {

namespace optim = cleave::optim;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

template <class T>
struct typed {
  template <template <class, auto> class Tensor>
  struct layers {
    Tensor<T, mesh(layer, embed / data, hidden / model)> up;
    Tensor<T, mesh(hidden / model)> bias;
  };
  template <template <class, auto> class Tensor>
  struct weights {
    layers<Tensor> all;
    Tensor<T, mesh(embed / model, hidden / data)> last;
    Tensor<T, mesh()> temperature;
  };
};
template <class T>
using Weights = typename typed<T>::template weights<cleave::tensor>;
template <class T>
using Number = cleave::tensor<T, mesh()>;

constexpr std::int64_t b = 12, l = 3, e = 10, h = 14;

template <class A>
A made(const cleave::grid& g) {
  return cleave::nn::make_parameters<A>(g, {batch = b, layer = l, embed = e, hidden = h});
}
template <class A>
void fill(A& all, double phase) {
  cleave::nn::for_each_tensor(all, [&]<class Tensor>(Tensor& t) {
    phase += 1;
    t.fill_by([=](const auto& at) {
      double x = phase;
      for (std::size_t i = 0; i < at.size(); ++i) x += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
      return static_cast<typename Tensor::element_type>(0.5 * std::sin(x));
    });
  });
}
template <class A>
void append(A& all, std::vector<std::vector<double>>& to) {
  cleave::nn::for_each_tensor(all, [&](auto& t) {
    const auto values = t.to_global();
    to.emplace_back(values.begin(), values.end());
  });
}

constexpr cleave::function adafactor_step([](auto w, auto state, auto slope, auto limit, auto rate) {
  constexpr optim::inverse_square_root schedule{1, 2};
  return optim::adafactor(w, state, optim::clip_by_global_norm(slope, limit), rate * schedule(state.steps),
                          {.weight_decay = 0.01});
});

template <class Signature, class F>
cleave::graph graph_of(const cleave::function<F>&) {
  return cleave::recording<F, Signature>::record();
}

TEST(optim, adafactor_of_clipped_gradients_is_what_it_means_on_every_mesh) {
  using State = optim::adafactor_state<Weights<double>, Number<double>>;
  using Signature = std::tuple<Weights<double>, State>(Weights<double>, State, Weights<double>, double, double);
  const cleave::graph graph = graph_of<Signature>(adafactor_step);
  const std::vector<cleave::named_size> named{{"batch", b}, {"layer", l}, {"embed", e}, {"hidden", h}};
  const cleave::sizes at = cleave::sizes_for(graph, named);
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    SCOPED_TRACE(std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]));
    const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
    auto w = made<Weights<double>>(g), slope = made<Weights<double>>(g);
    auto state = made<State>(g);
    fill(w, 0.1);
    for (int t = 1; t <= 4; ++t) {
      fill(slope, 0.2 * t);
      std::vector<std::vector<double>> before, after;
      append(w, before);
      append(state, before);
      append(slope, before);
      before.insert(before.end(), {{2.5}, {0.1}});
      std::vector<cleave::host_array> arrays;
      for (std::size_t i = 0; i < before.size(); ++i) {
        arrays.emplace_back(cleave::shape_of(graph.nodes[graph.inputs[i]].type, at));
        arrays.back().data = before[i];
      }
      const auto wanted = support::evaluated(g, graph, at, arrays);
      adafactor_step(w, state, slope, 2.5, 0.1).into(w, state);
      append(w, after);
      append(state, after);
      ASSERT_EQ(after.size(), wanted.size());
      for (std::size_t r = 0; r < after.size(); ++r)
        ASSERT_EQ(cleave::first_difference(wanted[r].data, after[r], 1e-12), -1) << "step " << t << " result " << r;
      EXPECT_EQ(state.steps.item(), t);
    }
  }
}

// In half the epsilon of Adam is 0, and in bfloat16 a decay of 0.999 is 1.
constexpr cleave::function narrow_step([](auto w, auto velocity, auto state, auto slope) {
  const auto [by_adam, next] = optim::adam(w, state, slope, 0.125);
  const auto [by_sgd, faster] = optim::sgd(w, velocity, slope, 0.1, 0.9);
  return std::tuple(by_adam, next, by_sgd, faster);
});
template <class T>
void expect_narrow_steps() {
  using W = cleave::tensor<T, mesh(embed / data)>;
  using State = optim::adam_state<W, Number<T>>;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  W w(g, {2}), adam(g, {2}), sgd(g, {2}), velocity(g, {2}), slope(g, {2});
  State state{W(g, {2}), W(g, {2}), Number<T>(g, {}), Number<T>(g, {})}, next = state;
  w.fill(T(1));
  slope.fill_by([](const auto& at) { return T(at[0]); });
  narrow_step(w, velocity, state, slope).into(adam, next, sgd, velocity);
  const auto as = adam.to_global(), ss = sgd.to_global();
  EXPECT_EQ(static_cast<float>(as[0]), 1);
  EXPECT_EQ(static_cast<float>(as[1]), 0.875f);
  EXPECT_EQ(static_cast<float>(ss[0]), 1);
  EXPECT_EQ(ss[1].bits, T(0.9f).bits);
  EXPECT_EQ(next.square_weight.item().bits, T(0.001f).bits);
}
TEST(optim, steps_of_narrow_weights_are_computed_in_float) {
  expect_narrow_steps<cleave::half>();
  expect_narrow_steps<cleave::bfloat16>();
}

using Batch = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function loss([](const auto& w, const auto& x) {
  const auto narrow = cast<cleave::half>(x);
  const auto y = dot(sum(w.all.up, layer) * w.temperature + w.last, narrow, embed) + w.all.bias;
  return mean(cast<float>(y) * cast<float>(y));
});
constexpr cleave::function mixed_step([](auto w, auto state, auto scale, auto x) {
  const auto [value, slope] = optim::mixed_value_and_grad<cleave::half>(loss, scale.scale, w, x);
  const auto finite = optim::all_finite(slope);
  const auto [moved, next] = optim::adam(w, state, slope, 0.02);
  const auto after = optim::next_loss_scale(scale, finite);
  return std::tuple(optim::select_tree(finite, moved, w), optim::select_tree(finite, next, state), after, value,
                    finite);
});

TEST(optim, steps_whose_gradients_overflow_are_skipped_on_all_devices) {
  using State = optim::adam_state<Weights<float>, Number<float>>;
  using Scale = optim::loss_scale<Number<float>, Number<std::int32_t>>;
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    SCOPED_TRACE(std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]));
    const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
    auto w = made<Weights<float>>(g);
    auto state = made<State>(g);
    auto scale = made<Scale>(g);
    Batch x(g, {b, e});
    fill(w, 0.1);
    fill(x, 0.3);
    // Far above what `half` can hold.
    scale.scale = 0x1p40f;
    Number<float> value(g, {});
    cleave::tensor<bool, mesh()> finite(g, {});
    float first = 0;
    int skipped = 0, done = 0;
    for (int t = 0; t < 60; ++t) {
      std::vector<std::vector<double>> before, after;
      append(w, before);
      append(state, before);
      const float was = scale.scale.item();
      mixed_step(w, state, scale, x).into(w, state, scale, value, finite);
      append(w, after);
      append(state, after);
      if (t == 0) first = value.item();
      for (const auto& leaf : after)
        for (double v : leaf) ASSERT_TRUE(std::isfinite(v));
      EXPECT_EQ(finite.item(), before != after);
      EXPECT_EQ(scale.scale.item(), finite.item() ? was : was / 2);
      (finite.item() ? done : skipped) += 1;
    }
    EXPECT_GT(skipped, 10);
    EXPECT_GT(done, 20);
    EXPECT_EQ(scale.good.item(), done);
    EXPECT_LT(value.item(), 0.5f * first);
  }
}

} // namespace CLEAVE_SOURCE
