// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A classifier of handwritten digits, written once as if for one device. The only words about parallelism are the
// layouts in the types: the batch over `data`, the hidden layer over `model`.
#pragma once

#include <cleave/cleave.hpp>
#include <cleave/optim/sgd.hpp>

namespace digits {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};

inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"pixel", 64> pixel;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"digit", 10> digit;

template <class Real>
struct of {
  using Images = cleave::tensor<Real, mesh(batch / data, pixel)>;
  using Labels = cleave::tensor<int, mesh(batch / data)>;
  using Scalar = cleave::tensor<Real, mesh()>;

  /// The weights; the momentum of the optimizer has the same shape.
  template <template <class, auto> class Tensor = cleave::tensor>
  struct weights {
    Tensor<Real, mesh(pixel, hidden / model)> up;
    Tensor<Real, mesh(hidden / model)> up_bias;
    Tensor<Real, mesh(hidden / model, digit)> down;
    Tensor<Real, mesh(digit)> down_bias;
  };
  using Weights = weights<>;

  static constexpr cleave::function scores = cleave::function([](auto w, auto images) {
    const auto h = relu(dot(images, w.up, pixel) + w.up_bias);
    return dot(h, w.down, hidden) + w.down_bias;
  });

  /// The mean cross entropy of a batch.
  static constexpr cleave::function loss = cleave::function([](auto w, auto images, auto labels) {
    const auto log_p = log_softmax(scores(w, images), digit);
    return -mean(sum(one_hot<Real>(labels, digit) * log_p, digit), batch);
  });

  /// One step of gradient descent with momentum.
  static constexpr cleave::function train = cleave::function(
      [](auto w, auto momentum, auto images, auto labels, auto rate) {
        const auto [value, slope] = cleave::value_and_grad(loss)(w, images, labels);
        return std::tuple_cat(cleave::optim::sgd(w, momentum, slope, rate, 0.9), std::tuple(value));
      });

  /// The fraction of a batch whose label has the highest score.
  static constexpr cleave::function accuracy = cleave::function([](auto w, auto images, auto labels) {
    const auto s = scores(w, images);
    const auto right = sum(one_hot<Real>(labels, digit) * s, digit) >= max(s, digit);
    return mean(cast<Real>(right), batch);
  });

  static constexpr auto train_plan =
      cleave::plan<std::tuple<Weights, Weights, Scalar>(Weights, Weights, Images, Labels, Real)>(train);
};

} // namespace digits
