// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_fields.hpp"

#include <algorithm>

namespace by_hand {

namespace {
template <class T>
MPI_Datatype datatype() {
  return sizeof(T) == 4 ? MPI_FLOAT : MPI_DOUBLE;
}
/// The planes of `mine` that are not in the fixed border.
template <class T>
std::pair<long, long> free_planes(const planes<T>& p, long mine, long reach) {
  return {p.first() ? reach : 0, p.last() ? mine - reach : mine};
}
} // namespace

template <class T>
planes<T>::planes(MPI_Comm comm, long mine, long elements, long reach, ends at)
    : comm_(comm), mine_(mine), elements_(elements), reach_(reach), ends_(at),
      all_(static_cast<std::size_t>((mine + 2 * reach) * elements)) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}
template <class T>
void planes<T>::exchange() {
  MPI_Request open[4];
  int n = 0;
  const long count = reach_ * elements_;
  T *const first = data(), *const last = data() + (mine_ - reach_) * elements_, *const behind = last + count;
  if (ends_ == ends::joined && size_ == 1) {
    std::copy_n(first, count, behind);
    std::copy_n(last, count, first - count);
    return;
  }
  // With two ranks both neighbours are the same one: tags tell its messages apart.
  const auto swap = [&](int with, int tag, T* own, T* theirs) {
    if (ends_ == ends::joined) with = (with + size_) % size_;
    if (with < 0 || with >= size_) return;
    MPI_Irecv(theirs, static_cast<int>(count), datatype<T>(), with, 1 - tag, comm_, open + n++);
    MPI_Isend(own, static_cast<int>(count), datatype<T>(), with, tag, comm_, open + n++);
  };
  swap(rank_ - 1, 0, first, first - count);
  swap(rank_ + 1, 1, last, behind);
  MPI_Waitall(n, open, MPI_STATUSES_IGNORE);
}

template <class T>
cube<T>::cube(MPI_Comm comm, long mine, long n, long reach, const T* start)
    : mine_(mine), n_(n), reach_(reach), now_(comm, mine, n * n, reach), next_(comm, mine, n * n, reach) {
  std::copy_n(start, mine * n * n, now_.data());
  std::copy_n(start, mine * n * n, next_.data());
}
template <class T>
template <long Reach>
void cube<T>::sweep_planes() {
  const long n = n_, plane = n * n;
  const auto [begin, end] = free_planes(now_, mine_, Reach);
  constexpr T share = T(1) / T(6 * Reach);
  for (long i = begin; i < end; ++i)
    for (long j = Reach; j < n - Reach; ++j) {
      const T* __restrict const from = now_.data() + i * plane + j * n;
      T* __restrict const to = next_.data() + i * plane + j * n;
#pragma omp simd
      for (long k = Reach; k < n - Reach; ++k) {
        T sum = from[k - 1] + from[k + 1] + from[k - n] + from[k + n] + from[k - plane] + from[k + plane];
        if constexpr (Reach == 2)
          sum += from[k - 2] + from[k + 2] + from[k - 2 * n] + from[k + 2 * n] + from[k - 2 * plane] +
                 from[k + 2 * plane];
        to[k] = share * sum;
      }
    }
}
template <class T>
void cube<T>::sweep() {
  now_.exchange();
  if (reach_ == 1) sweep_planes<1>();
  else sweep_planes<2>();
  std::swap(now_, next_);
}

template <class T>
square<T>::square(MPI_Comm comm, long mine, long n, const T* start)
    : mine_(mine), n_(n), now_(comm, mine, n, 1), next_(comm, mine, n, 1) {
  std::copy_n(start, mine * n, now_.data());
  std::copy_n(start, mine * n, next_.data());
}
template <class T>
void square<T>::sweep() {
  now_.exchange();
  const auto [begin, end] = free_planes(now_, mine_, 1);
  for (long i = begin; i < end; ++i) {
    const T* __restrict const from = now_.data() + i * n_;
    T* __restrict const to = next_.data() + i * n_;
    const long n = n_;
#pragma omp simd
    for (long j = 1; j < n - 1; ++j) to[j] = T(0.25) * (from[j - n] + from[j + n] + from[j - 1] + from[j + 1]);
  }
  std::swap(now_, next_);
}

template <class T>
torus<T>::torus(MPI_Comm comm, long mine, long n, const T* start)
    : mine_(mine), n_(n), now_(comm, mine, n, 1, ends::joined), next_(comm, mine, n, 1, ends::joined) {
  std::copy_n(start, mine * n, now_.data());
}
template <class T>
void torus<T>::sweep() {
  now_.exchange();
  const long n = n_;
  for (long i = 0; i < mine_; ++i) {
    const T* __restrict const from = now_.data() + i * n;
    T* __restrict const to = next_.data() + i * n;
    const auto heat = [&](long j, long left, long right) {
      to[j] = from[j] + T(0.1) * (from[j - n] + from[j + n] + from[left] + from[right] - 4 * from[j]);
    };
    heat(0, n - 1, 1);
    heat(n - 1, n - 2, 0);
#pragma omp simd
    for (long j = 1; j < n - 1; ++j)
      to[j] = from[j] + T(0.1) * (from[j - n] + from[j + n] + from[j - 1] + from[j + 1] - 4 * from[j]);
  }
  std::swap(now_, next_);
}

template class torus<float>;
template class torus<double>;
template class cube<float>;
template class cube<double>;
template class square<float>;
template class square<double>;

poisson::poisson(MPI_Comm comm, long mine, long n, const double* right)
    : comm_(comm), mine_(mine), n_(n), right_(right), p_(comm, mine, n, 1) {
  for (auto* v : {&u_, &r_, &q_}) v->resize(static_cast<std::size_t>(mine * n));
}
double poisson::total(double mine) const {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, comm_);
  return mine;
}
/// q = A p, and the inner product of both.
double poisson::apply() {
  p_.exchange();
  double sum = 0;
  const long n = n_;
  for (long i = 0; i < mine_; ++i) {
    const double* __restrict const p = p_.data() + i * n;
    double* __restrict const q = q_.data() + i * n;
    q[0] = 4 * p[0] - p[-n] - p[n] - p[1];
    q[n - 1] = 4 * p[n - 1] - p[-1] - p[2 * n - 1] - p[n - 2];
#pragma omp simd
    for (long j = 1; j < n - 1; ++j) q[j] = 4 * p[j] - p[j - n] - p[j + n] - p[j - 1] - p[j + 1];
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < n; ++j) sum += p[j] * q[j];
  }
  return total(sum);
}
void poisson::solve(int iterations) {
  const long all = mine_ * n_;
  std::fill(u_.begin(), u_.end(), 0.0);
  std::copy_n(right_, all, r_.data());
  std::copy_n(right_, all, p_.data());
  double* __restrict const u = u_.data();
  double* __restrict const r = r_.data();
  const double* __restrict const q = q_.data();
  double rho = 0;
#pragma omp simd reduction(+ : rho)
  for (long i = 0; i < all; ++i) rho += r[i] * r[i];
  rho = total(rho);
  for (int k = 0; k < iterations; ++k) {
    const double alpha = rho / apply();
    double* __restrict const p = p_.data();
    double next = 0;
#pragma omp simd reduction(+ : next)
    for (long i = 0; i < all; ++i) {
      u[i] += alpha * p[i];
      r[i] -= alpha * q[i];
      next += r[i] * r[i];
    }
    next = total(next);
    const double beta = next / rho;
    rho = next;
#pragma omp simd
    for (long i = 0; i < all; ++i) p[i] = r[i] + beta * p[i];
  }
}

} // namespace by_hand
