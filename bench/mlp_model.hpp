// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// y = relu(x up) down, the batch sharded over `data`, the hidden dim over `model`.
#pragma once

#include <cleave/cleave.hpp>
#include <cleave/optim/sgd.hpp>

namespace mlp {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

using Activations = cleave::tensor<float, mesh(batch / data, embed)>;
using Scalar = cleave::tensor<float, mesh()>;

template <template <class, auto> class Tensor = cleave::tensor>
struct weights {
  Tensor<float, mesh(embed, hidden / model)> up;
  Tensor<float, mesh(hidden / model, embed)> down;
};
using Weights = weights<>;

constexpr cleave::function forward([](auto w, auto x) { return dot(relu(dot(x, w.up, embed)), w.down, hidden); });

/// The mean square of what is off.
constexpr cleave::function loss([](auto w, auto x, auto wanted) {
  const auto off = forward(w, x) - wanted;
  return mean(off * off, batch, embed);
});

/// One step of gradient descent.
constexpr cleave::function train([](auto w, auto x, auto wanted, auto rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, x, wanted);
  return std::tuple(cleave::optim::sgd(w, slope, rate), value);
});

} // namespace mlp
