// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same programs as an expert writes them with MPI, Kokkos and Kokkos Kernels: what Cleave is measured against.
// Buffers are allocated once, elementwise work is fused, weights and gradients lie in one piece each, so that one
// kernel updates all of them and one all-reduce over the data axis takes all gradients.
#pragma once

#include <mpi.h>
#include <Kokkos_Core.hpp>

namespace by_hand {

using vector = Kokkos::View<float*, Kokkos::LayoutRight>;
using matrix = Kokkos::View<float**, Kokkos::LayoutRight>;
/// A part of a vector seen as a matrix.
using matrix_in = Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Communicators of a mesh data x model, the model axis fastest.
struct ranks {
  ranks(MPI_Comm comm, int data, int model);
  ~ranks();
  ranks(const ranks&) = delete;
  ranks& operator=(const ranks&) = delete;

  MPI_Comm along_data = MPI_COMM_NULL, along_model = MPI_COMM_NULL;
  int data, model, data_rank, model_rank;
};

/// y = relu(x up) down, the batch sharded over data, the hidden dim over model. Trained on the mean square of y -
/// wanted.
class mlp {
 public:
  mlp(const ranks& on, long batch, long embed, long hidden);
  /// Computes y.
  void forward();
  /// One step of gradient descent.
  void step(float rate);

  matrix x, wanted, y;
  vector weights;
  matrix_in up, down;
  float loss = 0;

 private:
  const ranks& on_;
  double elements_;
  matrix hidden_, hidden_gradient_, y_gradient_;
  vector gradients_;
  matrix_in up_gradient_, down_gradient_;
};

/// The training step of examples/digits_model.hpp: two layers with biases, mean cross entropy, momentum.
class digits {
 public:
  digits(const ranks& on, long batch, long hidden);
  void step(float rate);

  static constexpr int pixels = 64, classes = 10;
  matrix images;
  Kokkos::View<int*> labels;
  vector weights, momentum;
  matrix_in up, down;
  float loss = 0;

 private:
  const ranks& on_;
  long hidden_size_;
  double batch_;
  matrix hidden_, hidden_gradient_, scores_;
  /// Those of the weights in the same order, and the loss.
  vector gradients_;
  matrix_in up_gradient_, down_gradient_;
};

/// c = a b for 64 x 64 shards, and the sum over all ranks.
void dot_and_all_reduce(const matrix& a, const matrix& b, const matrix& c, MPI_Comm comm);
/// c = a + b as one plain loop.
void add(const float* a, const float* b, float* c, long n);

} // namespace by_hand
