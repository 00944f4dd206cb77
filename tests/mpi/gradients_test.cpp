// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/sgd.hpp>
#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Gradients and optimizers on tensors: what the plain evaluator gives, on every mesh, moving what the plan says.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using Batch = f64<mesh(batch / data, embed)>;
using Number = f64<mesh()>;

constexpr cleave::function layer([](auto x, auto w) {
  return dot(gelu(dot(x, w.up, embed) + w.bias), w.down, hidden) + x;
});
constexpr cleave::function loss([](auto w, auto x, auto y) {
  const auto off = layer(layer(x, w), w) - y;
  return mean(off * off);
});
constexpr cleave::function cheap_loss([](auto w, auto x, auto y) {
  const auto off = remat(layer)(remat(layer)(x, w), w) - y;
  return mean(off * off);
});

// One model, three ways to lay out its parameters.
template <template <class, auto> class Tensor = cleave::tensor>
struct replicated {
  Tensor<double, mesh(embed, hidden)> up;
  Tensor<double, mesh(hidden)> bias;
  Tensor<double, mesh(hidden, embed)> down;
};
template <template <class, auto> class Tensor = cleave::tensor>
struct scattered {
  Tensor<double, mesh(embed / data / model, hidden)> up;
  Tensor<double, mesh(hidden / data)> bias;
  Tensor<double, mesh(hidden / data, embed / model)> down;
};
template <template <class, auto> class Tensor = cleave::tensor>
struct megatron {
  Tensor<double, mesh(embed, hidden / model)> up;
  Tensor<double, mesh(hidden / model)> bias;
  Tensor<double, mesh(hidden / model, embed)> down;
};

constexpr std::int64_t b = 24, e = 48, h = 72;

template <class At>
double wave(const At& at, double phase) {
  double sum = phase;
  for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
  return 0.5 * std::sin(sum);
}
template <class Weights>
Weights made_weights(const cleave::grid& g) {
  Weights w{{g, {e, h}}, {g, {h}}, {g, {h, e}}};
  w.up.fill_by([](const auto& at) { return wave(at, 0.1); });
  w.bias.fill_by([](const auto& at) { return wave(at, 0.2); });
  w.down.fill_by([](const auto& at) { return wave(at, 0.3); });
  return w;
}
Batch made_batch(const cleave::grid& g, double phase) {
  Batch x(g, {b, e});
  x.fill_by([=](const auto& at) { return wave(at, phase); });
  return x;
}
template <class... Leaves>
std::vector<std::vector<double>> global(const Leaves&... leaves) {
  return {leaves.to_global()...};
}

void expect_near(const std::vector<std::vector<double>>& got, const std::vector<cleave::host_array>& wanted,
                 double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].size(), wanted[r].data.size());
    for (std::size_t i = 0; i < got[r].size(); ++i)
      ASSERT_NEAR(got[r][i], wanted[r].data[i], tolerance * (1 + std::fabs(wanted[r].data[i])))
          << "result " << r << " element " << i;
  }
}

/// What a function means, on data as the program has them.
template <class Signature, class F>
std::vector<cleave::host_array> meant(const cleave::function<F>&, const std::vector<std::vector<double>>& arguments) {
  const cleave::graph g = cleave::recording<F, Signature>::record();
  const std::vector<cleave::named_size> named{{"batch", b}, {"embed", e}, {"hidden", h}};
  const cleave::sizes at = cleave::sizes_for(g, named);
  std::vector<cleave::host_array> arrays;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    arrays.emplace_back(cleave::shape_of(g.nodes[g.inputs[i]].type, at));
    arrays.back().data = arguments[i];
  }
  return evaluate(g, at, arrays);
}

template <class Weights, class F>
void check_gradient(const F& f) {
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    SCOPED_TRACE(std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]));
    const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
    const auto w = made_weights<Weights>(g);
    const Batch x = made_batch(g, 0.4), y = made_batch(g, 0.5);
    constexpr auto both = cleave::value_and_grad(F{});
    using Signature = std::tuple<Number, Weights>(Weights, Batch, Batch);
    const auto wanted = meant<Signature>(both, global(w.up, w.bias, w.down, x, y));
    const auto [value, slope] = both(w, x, y).make();
    expect_near(global(value, slope.up, slope.bias, slope.down), wanted, 1e-12);

    Number again(g, {});
    Weights into{{g, {e, h}}, {g, {h}}, {g, {h, e}}};
    both(w, x, y).into(again, into);
    support::reset_charges();
    both(w, x, y).into(again, into);
    const std::int64_t moved = support::over_ranks(support::charged_bytes());
    expect_near(global(again, into.up, into.bias, into.down), wanted, 1e-12);
    constexpr auto plan = cleave::plan<Signature>(both);
    EXPECT_EQ(moved, plan.bytes({data = sizes[0], model = sizes[1], batch = b, embed = e, hidden = h}));
    (void)f;
  }
}

TEST(gradients, of_replicated_parameters) { check_gradient<replicated<>>(loss); }
TEST(gradients, of_scattered_parameters) { check_gradient<scattered<>>(loss); }
TEST(gradients, of_megatron_parameters) { check_gradient<megatron<>>(loss); }
TEST(gradients, of_recomputed_layers) { check_gradient<scattered<>>(cheap_loss); }

constexpr cleave::function adam_step([](auto w, auto state, auto x, auto y, auto rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, x, y);
  return std::tuple_cat(cleave::optim::adam(w, state, slope, rate, {.weight_decay = 0.01}), std::tuple(value));
});

TEST(optim, adam_is_the_published_recurrence_on_every_mesh) {
  using State = cleave::optim::adam_state<scattered<>, Number>;
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const cleave::grid g(mesh, MPI_COMM_WORLD, sizes);
    auto w = made_weights<megatron<>>(g);
    State s{{{g, {e, h}}, {g, {h}}, {g, {h, e}}}, {{g, {e, h}}, {g, {h}}, {g, {h, e}}}, {g, {}}, {g, {}}};
    const Batch x = made_batch(g, 0.4), y = made_batch(g, 0.5);
    Number value(g, {});
    // By the paper, on whole arrays.
    std::vector<std::vector<double>> weights = global(w.up, w.bias, w.down), mean(3), square(3);
    for (std::size_t i = 0; i < 3; ++i) mean[i] = square[i] = std::vector<double>(weights[i].size(), 0);
    for (int t = 1; t <= 4; ++t) {
      const auto slope = meant<std::tuple<Number, megatron<>>(megatron<>, Batch, Batch)>(
          cleave::value_and_grad(loss), {weights[0], weights[1], weights[2], x.to_global(), y.to_global()});
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < weights[i].size(); ++j) {
          const double d = slope[i + 1].data[j];
          double &m = mean[i][j], &v = square[i][j], &p = weights[i][j];
          m = 0.9 * m + 0.1 * d;
          v = 0.999 * v + 0.001 * d * d;
          p -= 0.01 * (m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8) + 0.01 * p);
        }
      adam_step(w, s, x, y, 0.01).into(w, s, value);
      EXPECT_NEAR(value.item(), slope[0].data[0], 1e-10);
      const auto got = global(w.up, w.bias, w.down);
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < weights[i].size(); ++j) ASSERT_NEAR(got[i][j], weights[i][j], 1e-9) << "step " << t;
    }
  }
}

constexpr cleave::function sgd_step([](auto w, auto v, auto x, auto y) {
  const auto slope = cleave::grad(loss)(w, x, y);
  return cleave::optim::sgd(w, v, slope, 0.001, 0.5);
});
TEST(optim, momentum_adds_up) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  auto w = made_weights<replicated<>>(g);
  replicated<> v{{g, {e, h}}, {g, {h}}, {g, {h, e}}};
  const Batch x = made_batch(g, 0.4), y = made_batch(g, 0.5);
  auto weights = w.bias.to_global();
  std::vector<double> velocity(weights.size(), 0);
  for (int t = 0; t < 3; ++t) {
    const auto slope = cleave::grad(loss)(w, x, y).make();
    const auto d = slope.bias.to_global();
    for (std::size_t j = 0; j < d.size(); ++j) {
      velocity[j] = 0.5 * velocity[j] + d[j];
      weights[j] -= 0.001 * velocity[j];
    }
    sgd_step(w, v, x, y).into(w, v);
    const auto got = w.bias.to_global();
    for (std::size_t j = 0; j < d.size(); ++j) ASSERT_NEAR(got[j], weights[j], 1e-12 * (1 + std::fabs(weights[j])));
  }
}

} // namespace CLEAVE_SOURCE
