// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_chain.hpp"
#include "by_hand_memory.hpp"

#include <KokkosBlas3_gemm.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace by_hand {

window::window(MPI_Comm comm, std::size_t floats) : comm_(comm) {
  MPI_Comm_size(comm, &size_);
  MPI_Comm_rank(comm, &rank_);
  float* base = nullptr;
  MPI_Win_allocate_shared(static_cast<MPI_Aint>(floats * sizeof(float) + 64), sizeof(float), MPI_INFO_NULL, comm, &base,
                          &handle_);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, handle_);
  for (int r = 0; r < size_; ++r) {
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(handle_, r, &bytes, &unit, &base);
    at_.push_back(reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(base) + 63) & ~std::uintptr_t{63}));
  }
  std::fill_n(own(), floats, 0.0f);
  meet();
}
window::~window() {
  MPI_Win_unlock_all(handle_);
  MPI_Win_free(&handle_);
}
void window::meet() const {
  MPI_Win_sync(handle_);
  MPI_Barrier(comm_);
  MPI_Win_sync(handle_);
}

void product(long m, long n, long k, const float* a, const float* b, float* c) {
  using in = Kokkos::View<const float**, Kokkos::LayoutRight, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using out = Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  const auto size = [](long i) { return static_cast<std::size_t>(i); };
  KokkosBlas::gemm("N", "N", 1.0f, in(a, size(m), size(k)), in(b, size(k), size(n)), 0.0f, out(c, size(m), size(n)));
}

namespace {
void sum(const window& w, long first, long last, float* out) {
  constexpr long block = 4096;
  for (long at = first; at < last; at += block) {
    const long n = std::min(block, last - at);
    float* const to = out + (at - first);
    const float *const one = w.of(0) + at, *const other = w.of(1 % w.size()) + at;
    if (w.size() == 1) std::copy_n(one, n, to);
    else
      for (long i = 0; i < n; ++i) to[i] = one[i] + other[i];
    for (int r = 2; r < w.size(); ++r) {
      const float* const more = w.of(r) + at;
      for (long i = 0; i < n; ++i) to[i] += more[i];
    }
  }
}
} // namespace

void all_reduce(const window& w, long n, float* out) {
  w.meet();
  if (n <= 16384) {
    sum(w, 0, n, out);
    return w.meet();
  }
  // Each rank sums its part, behind its operand, and all fetch it.
  const long part = n / w.size(), first = part * w.rank(), last = w.rank() + 1 == w.size() ? n : first + part;
  sum(w, first, last, w.own() + n + first);
  w.meet();
  for (int r = 0; r < w.size(); ++r) {
    const long from = part * r, to = r + 1 == w.size() ? n : from + part;
    std::copy_n(w.of(r) + n + from, to - from, out + from);
  }
  w.meet();
}
void reduce_scatter(const window& w, long n, float* out) {
  const long part = n / w.size();
  w.meet();
  sum(w, part * w.rank(), part * (w.rank() + 1), out);
  w.meet();
}
void reshard(const window& w, long side, float* out) {
  const long mine = side / w.size();
  w.meet();
  for (int k = 0; k < w.size(); ++k) {
    const int r = (w.rank() + k) % w.size();
    for (long i = 0; i < mine; ++i)
      std::memcpy(out + (r * mine + i) * mine, w.of(r) + i * side + w.rank() * mine,
                  static_cast<std::size_t>(mine) * sizeof(float));
  }
  w.meet();
}

void chain(const float* __restrict in, float* __restrict out, long n) {
#pragma omp simd
  for (long i = 0; i < n; ++i) out[i] = ten(in[i]);
}
void chain_in_place(float* at, long n) {
#pragma omp simd
  for (long i = 0; i < n; ++i) at[i] = ten(at[i]);
}

entropy::entropy(MPI_Comm comm, long rows, long words, const float* scores, const int* labels)
    : comm_(comm), rows_(rows), words_(words), scores_(scores), labels_(labels) {
  int size = 1, rank = 0;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  mine_ = words / size;
  first_ = mine_ * rank;
  for (auto* v : {&most_, &most_of_all_}) v->resize(static_cast<std::size_t>(rows));
  for (auto* v : {&sums_, &sums_of_all_}) v->resize(static_cast<std::size_t>(2 * rows));
}
float entropy::loss() {
  float *const most = most_.data(), *const all = most_of_all_.data(), *const s = sums_.data();
  const auto count = static_cast<int>(rows_);
  for (long i = 0; i < rows_; ++i) {
    const float* const row = scores_ + i * mine_;
    float m = row[0], t = 0;
#pragma omp simd reduction(max : m)
    for (long j = 0; j < mine_; ++j) m = row[j] > m ? row[j] : m;
#pragma omp simd reduction(+ : t)
    for (long j = 0; j < mine_; ++j) t += std::exp(row[j] - m);
    const long k = labels_[i] - first_;
    most[i] = m;
    s[i] = t;
    s[rows_ + i] = k >= 0 && k < mine_ ? row[k] : 0;
  }
  MPI_Allreduce(most, all, count, MPI_FLOAT, MPI_MAX, comm_);
  for (long i = 0; i < rows_; ++i) s[i] *= std::exp(most[i] - all[i]);
  float* const total = sums_of_all_.data();
  MPI_Allreduce(s, total, 2 * count, MPI_FLOAT, MPI_SUM, comm_);
  float of_all = 0;
  for (long i = 0; i < rows_; ++i) {
    total[i] = all[i] + std::log(total[i]);
    of_all += total[i] - total[rows_ + i];
  }
  return of_all / static_cast<float>(rows_);
}
float entropy::loss_and_gradient(float* gradient) {
  const float result = loss(), share = 1 / static_cast<float>(rows_);
  for (long i = 0; i < rows_; ++i) {
    const float* __restrict const row = scores_ + i * mine_;
    float* __restrict const to = gradient + i * mine_;
    const float total = sums_of_all_[static_cast<std::size_t>(i)];
#pragma omp simd
    for (long j = 0; j < mine_; ++j) to[j] = std::exp(row[j] - total) * share;
    if (const long k = labels_[i] - first_; k >= 0 && k < mine_) to[k] -= share;
  }
  return result;
}

} // namespace by_hand
