// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand.hpp"

#include <KokkosBlas3_gemm.hpp>

#include <cmath>

namespace by_hand {

namespace {

using rows = Kokkos::RangePolicy<Kokkos::IndexType<long>>;

void product(const char* ta, const char* tb, const auto& a, const auto& b, const auto& c) {
  KokkosBlas::gemm(ta, tb, 1.0f, a, b, 0.0f, c);
}
void sum_over(MPI_Comm comm, int size, float* at, std::size_t count) {
  if (size > 1) MPI_Allreduce(MPI_IN_PLACE, at, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm);
}
matrix_in part(const vector& of, long first, long rows_of, long columns) {
  return {of.data() + first, static_cast<std::size_t>(rows_of), static_cast<std::size_t>(columns)};
}

} // namespace

ranks::ranks(MPI_Comm comm, int data_size, int model_size) : data(data_size), model(model_size) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  data_rank = rank / model;
  model_rank = rank % model;
  MPI_Comm_split(comm, model_rank, data_rank, &along_data);
  MPI_Comm_split(comm, data_rank, model_rank, &along_model);
}
ranks::~ranks() {
  MPI_Comm_free(&along_data);
  MPI_Comm_free(&along_model);
}

mlp::mlp(const ranks& on, long batch, long embed, long hidden)
    : on_(on), elements_(static_cast<double>(batch * embed)) {
  const auto b = static_cast<std::size_t>(batch / on.data), e = static_cast<std::size_t>(embed);
  const auto h = static_cast<std::size_t>(hidden / on.model);
  x = matrix("x", b, e);
  wanted = matrix("wanted", b, e);
  y = matrix("y", b, e);
  y_gradient_ = matrix("y gradient", b, e);
  hidden_ = matrix("hidden", b, h);
  hidden_gradient_ = matrix("hidden gradient", b, h);
  weights = vector("weights", 2 * e * h);
  gradients_ = vector("gradients", 2 * e * h + 1);
  const auto size = static_cast<long>(e * h);
  up = part(weights, 0, embed, hidden / on.model);
  down = part(weights, size, hidden / on.model, embed);
  up_gradient_ = part(gradients_, 0, embed, hidden / on.model);
  down_gradient_ = part(gradients_, size, hidden / on.model, embed);
}

void mlp::forward() {
  product("N", "N", x, up, hidden_);
  float* h = hidden_.data();
  Kokkos::parallel_for(
      "relu", rows(0, static_cast<long>(hidden_.size())), KOKKOS_LAMBDA(long i) { h[i] = h[i] > 0 ? h[i] : 0; });
  product("N", "N", hidden_, down, y);
  sum_over(on_.along_model, on_.model, y.data(), y.size());
}

void mlp::step(float rate) {
  forward();
  const float *have = y.data(), *want = wanted.data();
  float* dy = y_gradient_.data();
  const auto scale = static_cast<float>(2 / elements_);
  const long columns = static_cast<long>(y.extent(1));
  float square = 0;
  Kokkos::parallel_reduce(
      "loss", rows(0, static_cast<long>(y.extent(0))),
      KOKKOS_LAMBDA(long i, float& sum) {
        float of_row = 0;
#pragma omp simd reduction(+ : of_row)
        for (long j = i * columns; j < (i + 1) * columns; ++j) {
          const float off = have[j] - want[j];
          dy[j] = scale * off;
          of_row += off * off;
        }
        sum += of_row;
      },
      square);
  product("T", "N", hidden_, y_gradient_, down_gradient_);
  product("N", "T", y_gradient_, down, hidden_gradient_);
  const float* h = hidden_.data();
  float* dh = hidden_gradient_.data();
  Kokkos::parallel_for(
      "relu gradient", rows(0, static_cast<long>(hidden_.size())),
      KOKKOS_LAMBDA(long i) { dh[i] = h[i] > 0 ? dh[i] : 0; });
  product("T", "N", x, hidden_gradient_, up_gradient_);
  float* g = gradients_.data();
  g[weights.size()] = square / static_cast<float>(elements_);
  sum_over(on_.along_data, on_.data, g, gradients_.size());
  loss = g[weights.size()];
  float* w = weights.data();
  Kokkos::parallel_for(
      "update", rows(0, static_cast<long>(weights.size())), KOKKOS_LAMBDA(long i) { w[i] -= rate * g[i]; });
}

digits::digits(const ranks& on, long batch, long hidden)
    : on_(on), hidden_size_(hidden / on.model), batch_(static_cast<double>(batch)) {
  const auto b = static_cast<std::size_t>(batch / on.data), h = static_cast<std::size_t>(hidden_size_);
  images = matrix("images", b, pixels);
  labels = Kokkos::View<int*>("labels", b);
  hidden_ = matrix("hidden", b, h);
  hidden_gradient_ = matrix("hidden gradient", b, h);
  scores_ = matrix("scores", b, classes);
  const std::size_t all = pixels * h + h + h * classes + classes;
  weights = vector("weights", all);
  momentum = vector("momentum", all);
  gradients_ = vector("gradients", all + 1);
  const long down_at = (pixels + 1) * hidden_size_;
  up = part(weights, 0, pixels, hidden_size_);
  down = part(weights, down_at, hidden_size_, classes);
  up_gradient_ = part(gradients_, 0, pixels, hidden_size_);
  down_gradient_ = part(gradients_, down_at, hidden_size_, classes);
}

void digits::step(float rate) {
  const long b = static_cast<long>(images.extent(0)), nh = hidden_size_;
  const long bias_at = pixels * nh, down_bias_at = bias_at + nh + nh * classes;
  const float *up_bias = weights.data() + bias_at, *down_bias = weights.data() + down_bias_at;
  float *h = hidden_.data(), *dh = hidden_gradient_.data(), *s = scores_.data(), *g = gradients_.data();
  const int* label = labels.data();

  product("N", "N", images, up, hidden_);
  Kokkos::parallel_for(
      "bias and relu", rows(0, b), KOKKOS_LAMBDA(long i) {
        for (long j = 0; j < nh; ++j) {
          const float sum = h[i * nh + j] + up_bias[j];
          h[i * nh + j] = sum > 0 ? sum : 0;
        }
      });
  product("N", "N", hidden_, down, scores_);
  sum_over(on_.along_model, on_.model, s, scores_.size());

  // The gradient of the scores takes the place of the scores.
  const auto share = static_cast<float>(1 / batch_);
  float entropy = 0;
  Kokkos::parallel_reduce(
      "softmax and loss", rows(0, b),
      KOKKOS_LAMBDA(long i, float& sum) {
        float* row = s + i * classes;
        float most = -INFINITY, total = 0;
        for (int j = 0; j < classes; ++j) {
          row[j] += down_bias[j];
          most = row[j] > most ? row[j] : most;
        }
        const float right = row[label[i]] - most;
        for (int j = 0; j < classes; ++j) {
          row[j] = std::exp(row[j] - most);
          total += row[j];
        }
        sum += std::log(total) - right;
        for (int j = 0; j < classes; ++j) row[j] *= share / total;
        row[label[i]] -= share;
      },
      entropy);

  product("T", "N", hidden_, scores_, down_gradient_);
  product("N", "T", scores_, down, hidden_gradient_);
  Kokkos::parallel_for("relu gradient", rows(0, b * nh), KOKKOS_LAMBDA(long i) { dh[i] = h[i] > 0 ? dh[i] : 0; });
  product("T", "N", images, hidden_gradient_, up_gradient_);
  float *up_bias_gradient = g + bias_at, *down_bias_gradient = g + down_bias_at;
  Kokkos::parallel_for(
      "bias gradients", rows(0, 1), KOKKOS_LAMBDA(long) {
        for (long j = 0; j < nh; ++j) up_bias_gradient[j] = 0;
        for (int j = 0; j < classes; ++j) down_bias_gradient[j] = 0;
        for (long i = 0; i < b; ++i) {
          for (long j = 0; j < nh; ++j) up_bias_gradient[j] += dh[i * nh + j];
          for (int j = 0; j < classes; ++j) down_bias_gradient[j] += s[i * classes + j];
        }
      });
  g[weights.size()] = entropy * share;
  sum_over(on_.along_data, on_.data, g, gradients_.size());
  loss = g[weights.size()];

  float *w = weights.data(), *v = momentum.data();
  Kokkos::parallel_for(
      "update", rows(0, static_cast<long>(weights.size())), KOKKOS_LAMBDA(long i) {
        v[i] = 0.9f * v[i] + g[i];
        w[i] -= rate * v[i];
      });
}

void dot_and_all_reduce(const matrix& a, const matrix& b, const matrix& c, MPI_Comm comm) {
  product("N", "N", a, b, c);
  MPI_Allreduce(MPI_IN_PLACE, c.data(), static_cast<int>(c.size()), MPI_FLOAT, MPI_SUM, comm);
}

void add(const float* a, const float* b, float* c, long n) {
  for (long i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

} // namespace by_hand
