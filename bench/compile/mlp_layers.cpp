// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compile_time.py compiles: LAYERS blocks of the README's mlp, on a mesh of DATA x MODEL devices (-1: known when
// it runs), forward or, with GRADIENT, a whole training step. Every step is a call in the object code.
#include <cleave/cleave.hpp>
#include <cleave/optim/sgd.hpp>

#ifndef LAYERS
#define LAYERS 1
#endif
#ifndef DATA
#define DATA cleave::dynamic
#define MODEL cleave::dynamic
#endif

namespace layers {

inline constexpr cleave::axis<"data", DATA> data;
inline constexpr cleave::axis<"model", MODEL> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"hidden"> hidden;

using Activations = cleave::tensor<float, mesh(batch / data, embed)>;
using Scalar = cleave::tensor<float, mesh()>;

template <template <class, auto> class Tensor = cleave::tensor>
struct block {
  Tensor<float, mesh(embed, hidden / model)> up;
  Tensor<float, mesh(hidden / model, embed)> down;
};
template <template <class, auto> class Tensor = cleave::tensor>
struct weights {
  std::array<block<Tensor>, LAYERS> blocks;
};
using Weights = weights<>;

constexpr cleave::function forward([](auto w, auto x) {
  auto y = x + 0;
  for (const auto& b : w.blocks) y = dot(gelu(dot(y, b.up, embed)), b.down, hidden) + y;
  return y;
});
constexpr cleave::function loss([](auto w, auto x, auto wanted) {
  const auto off = forward(w, x) - wanted;
  return mean(off * off, batch, embed);
});
constexpr cleave::function train([](auto w, auto x, auto wanted, auto rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(w, x, wanted);
  return std::tuple(cleave::optim::sgd(w, slope, rate), value);
});

void run(Weights& w, const Activations& x, const Activations& wanted, Activations& y, Scalar& value) {
#ifdef GRADIENT
  train(w, x, wanted, 0.1f).into(w, value);
  static_cast<void>(y);
#else
  y = forward(w, x);
  static_cast<void>(wanted);
  static_cast<void>(value);
#endif
}

} // namespace layers
