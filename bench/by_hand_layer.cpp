// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_layer.hpp"

#include <algorithm>
#include <cmath>

extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                       const int*, const float*, const int*, const float*, float*, const int*);

namespace by_hand {

namespace {

struct matrix_at {
  const float* at;
  long row; // elements from one row to the next
  bool turned = false;
};
/// c = alpha a b + beta c for row-major matrices, by a library that has its columns one after the other.
void multiply(long m, long n, long k, float alpha, matrix_at a, matrix_at b, float beta, float* c, long row) {
  const auto number = [](long v) { return static_cast<int>(v); };
  const int rows = number(m), columns = number(n), inner = number(k), ra = number(a.row), rb = number(b.row),
            rc = number(row);
  sgemm_(b.turned ? "T" : "N", a.turned ? "T" : "N", &columns, &rows, &inner, &alpha, b.at, &rb, a.at, &ra, &beta, c,
         &rc);
}

/// Each row minus its mean, divided by its deviation, times the gain. The mean and 1 / deviation go to `moments`.
void normalise(long rows, long n, const float* __restrict x, const float* __restrict gain, float* __restrict out,
               float* __restrict moments) {
  for (long i = 0; i < rows; ++i) {
    const float* __restrict const from = x + i * n;
    float* __restrict const to = out + i * n;
    float mean = 0, square = 0;
    for (long j = 0; j < n; ++j) mean += from[j];
    mean /= static_cast<float>(n);
    for (long j = 0; j < n; ++j) square += (from[j] - mean) * (from[j] - mean);
    const float scale = 1 / std::sqrt(square / static_cast<float>(n) + 1e-5f);
    moments[2 * i] = mean;
    moments[2 * i + 1] = scale;
    for (long j = 0; j < n; ++j) to[j] = (from[j] - mean) * scale * gain[j];
  }
}
/// The cotangent of x, plus that of the other way around the normalization; and of the gain.
void normalise_backward(long rows, long n, const float* __restrict x, const float* __restrict gain,
                        const float* __restrict moments, const float* __restrict slope, const float* __restrict around,
                        float* __restrict to, float* __restrict gain_slope) {
  std::fill_n(gain_slope, n, 0.0f);
  for (long i = 0; i < rows; ++i) {
    const float* __restrict const from = x + i * n;
    const float* __restrict const d = slope + i * n;
    const float* __restrict const add = around + i * n;
    float* __restrict const out = to + i * n;
    const float mean = moments[2 * i], scale = moments[2 * i + 1];
    float s = 0, t = 0;
    for (long j = 0; j < n; ++j) {
      const float hat = (from[j] - mean) * scale, g = d[j] * gain[j];
      s += g;
      t += g * hat;
      gain_slope[j] += d[j] * hat;
    }
    s /= static_cast<float>(n);
    t /= static_cast<float>(n);
    for (long j = 0; j < n; ++j) out[j] = add[j] + scale * (d[j] * gain[j] - s - (from[j] - mean) * scale * t);
  }
}

constexpr float root = 0.7978845608f, cubic = 0.044715f;
/// x / 2 (1 + tanh c) is x times the sigmoid of 2 c.
void gelu(long n, const float* __restrict x, float* __restrict y) {
#pragma omp simd
  for (long i = 0; i < n; ++i) y[i] = x[i] / (1 + std::exp(-2 * root * (x[i] + cubic * x[i] * x[i] * x[i])));
}
void gelu_backward(long n, const float* __restrict x, float* __restrict slope) {
#pragma omp simd
  for (long i = 0; i < n; ++i) {
    const float s = 1 / (1 + std::exp(-2 * root * (x[i] + cubic * x[i] * x[i] * x[i])));
    slope[i] *= s + x[i] * s * (1 - s) * 2 * root * (1 + 3 * cubic * x[i] * x[i]);
  }
}
void softmax(long rows, long n, float* p) {
  for (long i = 0; i < rows; ++i) {
    float* const row = p + i * n;
    float most = row[0], sum = 0;
    for (long j = 0; j < n; ++j) most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < n; ++j) {
      row[j] = std::exp(row[j] - most);
      sum += row[j];
    }
    const float share = 1 / sum;
    for (long j = 0; j < n; ++j) row[j] *= share;
  }
}
void softmax_backward(long rows, long n, float scale, const float* __restrict p, float* __restrict slope) {
  for (long i = 0; i < rows; ++i) {
    const float* __restrict const row = p + i * n;
    float* __restrict const d = slope + i * n;
    float sum = 0;
    for (long j = 0; j < n; ++j) sum += row[j] * d[j];
    for (long j = 0; j < n; ++j) d[j] = row[j] * (d[j] - sum) * scale;
  }
}
void add(long n, const float* __restrict x, float* __restrict y) {
  for (long i = 0; i < n; ++i) y[i] += x[i];
}
void all_reduce(std::vector<float>& v, int ranks, MPI_Comm comm) {
  if (ranks > 1) MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_FLOAT, MPI_SUM, comm);
}
/// to = from + a b, where the ranks of the model axis have parts of the inner dim.
void project_onto(const ranks& on, long m, long n, long k, matrix_at a, matrix_at b, const std::vector<float>& from,
                  std::vector<float>& to) {
  if (on.model == 1) std::copy(from.begin(), from.end(), to.begin());
  multiply(m, n, k, 1, a, b, on.model == 1 ? 1.0f : 0.0f, to.data(), n);
  all_reduce(to, on.model, on.along_model);
  if (on.model > 1) add(m * n, from.data(), to.data());
}

} // namespace

void layer::allocate(parameters& p) const {
  const long q = width(), n = e_.embed;
  const long sizes[] = {3 * n * q, q * n, n * e_.hidden, e_.hidden * n, n, n};
  long all = 0;
  for (long size : sizes) all += size;
  p.all.assign(static_cast<std::size_t>(all), 0.0f);
  float* at = p.all.data();
  float** const parts[] = {&p.qkv, &p.out, &p.up, &p.down, &p.gain1, &p.gain2};
  for (int i = 0; i < 6; ++i) {
    *parts[i] = at;
    at += sizes[i];
  }
}
layer::layer(const ranks& on, const layer_extents& e, double elements) : on_(on), e_(e), elements_(elements) {
  allocate(w);
  allocate(gradients);
  const auto make = [](long n, auto&... arrays) { (arrays.resize(static_cast<std::size_t>(n)), ...); };
  make(rows() * e.embed, x, y, x_gradient, normed1_, normed2_, middle_, y_slope_, middle_slope_, normed_slope_);
  make(2 * rows(), moments1_, moments2_);
  make(rows() * 3 * width(), qkv_, qkv_slope_);
  make(rows() * width(), mixed_, mixed_slope_);
  make(rows() * e.hidden, before_, active_, before_slope_);
  make(e.batch * e.heads * e.positions * e.positions, weights_);
  make(e.positions * e.positions, weights_slope_);
}

void layer::attend() {
  const long s = e_.positions, h = e_.head, q = width();
  const float scale = 1 / std::sqrt(static_cast<float>(h));
  for (long b = 0; b < e_.batch; ++b)
    for (long i = 0; i < e_.heads; ++i) {
      const float* const query = qkv_.data() + b * s * 3 * q + i * h;
      float* const p = weights_.data() + (b * e_.heads + i) * s * s;
      multiply(s, s, h, scale, {query, 3 * q}, {query + q, 3 * q, true}, 0, p, s);
      softmax(s, s, p);
      multiply(s, h, s, 1, {p, s}, {query + 2 * q, 3 * q}, 0, mixed_.data() + b * s * q + i * h, q);
    }
}
void layer::attend_backward() {
  const long s = e_.positions, h = e_.head, q = width();
  const float scale = 1 / std::sqrt(static_cast<float>(h));
  float* const dp = weights_slope_.data();
  for (long b = 0; b < e_.batch; ++b)
    for (long i = 0; i < e_.heads; ++i) {
      const float* const query = qkv_.data() + b * s * 3 * q + i * h;
      const float* const p = weights_.data() + (b * e_.heads + i) * s * s;
      const float* const d = mixed_slope_.data() + b * s * q + i * h;
      float* const dq = qkv_slope_.data() + b * s * 3 * q + i * h;
      multiply(s, s, h, 1, {d, q}, {query + 2 * q, 3 * q, true}, 0, dp, s);
      multiply(s, h, s, 1, {p, s, true}, {d, q}, 0, dq + 2 * q, 3 * q);
      softmax_backward(s, s, scale, p, dp);
      multiply(s, h, s, 1, {dp, s}, {query + q, 3 * q}, 0, dq, 3 * q);
      multiply(s, h, s, 1, {dp, s, true}, {query, 3 * q}, 0, dq + q, 3 * q);
    }
}

void layer::forward() {
  const long t = rows(), n = e_.embed, f = e_.hidden, q = width();
  normalise(t, n, x.data(), w.gain1, normed1_.data(), moments1_.data());
  multiply(t, 3 * q, n, 1, {normed1_.data(), n}, {w.qkv, 3 * q}, 0, qkv_.data(), 3 * q);
  attend();
  project_onto(on_, t, n, q, {mixed_.data(), q}, {w.out, n}, x, middle_);
  normalise(t, n, middle_.data(), w.gain2, normed2_.data(), moments2_.data());
  multiply(t, f, n, 1, {normed2_.data(), n}, {w.up, f}, 0, before_.data(), f);
  gelu(t * f, before_.data(), active_.data());
  project_onto(on_, t, n, f, {active_.data(), f}, {w.down, n}, middle_, y);
}

void layer::forward_and_backward() {
  forward();
  const long t = rows(), n = e_.embed, f = e_.hidden, q = width();
  const float scale = static_cast<float>(2 / elements_);
  for (std::size_t i = 0; i < y.size(); ++i) y_slope_[i] = y[i] * scale;
  multiply(f, n, t, 1, {active_.data(), f, true}, {y_slope_.data(), n}, 0, gradients.down, n);
  multiply(t, f, n, 1, {y_slope_.data(), n}, {w.down, n, true}, 0, before_slope_.data(), f);
  gelu_backward(t * f, before_.data(), before_slope_.data());
  multiply(n, f, t, 1, {normed2_.data(), n, true}, {before_slope_.data(), f}, 0, gradients.up, f);
  multiply(t, n, f, 1, {before_slope_.data(), f}, {w.up, f, true}, 0, normed_slope_.data(), n);
  all_reduce(normed_slope_, on_.model, on_.along_model);
  normalise_backward(t, n, middle_.data(), w.gain2, moments2_.data(), normed_slope_.data(), y_slope_.data(),
                     middle_slope_.data(), gradients.gain2);
  multiply(q, n, t, 1, {mixed_.data(), q, true}, {middle_slope_.data(), n}, 0, gradients.out, n);
  multiply(t, q, n, 1, {middle_slope_.data(), n}, {w.out, n, true}, 0, mixed_slope_.data(), q);
  attend_backward();
  multiply(n, 3 * q, t, 1, {normed1_.data(), n, true}, {qkv_slope_.data(), 3 * q}, 0, gradients.qkv, 3 * q);
  multiply(t, n, 3 * q, 1, {qkv_slope_.data(), 3 * q}, {w.qkv, 3 * q, true}, 0, normed_slope_.data(), n);
  all_reduce(normed_slope_, on_.model, on_.along_model);
  normalise_backward(t, n, x.data(), w.gain1, moments1_.data(), normed_slope_.data(), middle_slope_.data(),
                     x_gradient.data(), gradients.gain1);
  all_reduce(gradients.all, on_.data, on_.along_data);
}

} // namespace by_hand
