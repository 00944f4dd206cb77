// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Transformer layer and its gradients as an expert writes them with MPI, a BLAS and plain loops.
#pragma once

#include "by_hand.hpp"

#include <vector>

namespace by_hand {

/// Extents of a layer on one rank: sequences of the batch, positions, width, heads, elements of a head, hidden units.
struct layer_extents {
  long batch, positions, embed, heads, head, hidden;
};

/// y = z + gelu(norm(z) up) down, z = x + attention(norm(x)), and the gradients of the mean of y^2. The batch is
/// sharded over data, heads and hidden units over model. Queries, keys and values are one product; weights and
/// gradients are in one piece each, so that one all-reduce over data takes all gradients.
class layer {
 public:
  /// `elements`: of y on all ranks.
  layer(const ranks& on, const layer_extents& e, double elements);
  void forward();
  void forward_and_backward();

  using numbers = std::vector<float>;
  numbers x, y, x_gradient;
  /// Weights, or gradients by them. `qkv` is [embed, queries keys values].
  struct parameters {
    numbers all;
    float *qkv, *out, *up, *down, *gain1, *gain2;
  };
  parameters w, gradients;

 private:
  void allocate(parameters& p) const;
  void attend();
  void attend_backward();
  long rows() const { return e_.batch * e_.positions; }
  long width() const { return e_.heads * e_.head; }

  const ranks& on_;
  layer_extents e_;
  double elements_;
  numbers normed1_, normed2_, moments1_, moments2_, qkv_, weights_, mixed_, middle_, before_, active_;
  numbers y_slope_, middle_slope_, normed_slope_, before_slope_, qkv_slope_, mixed_slope_, weights_slope_;
};

} // namespace by_hand
