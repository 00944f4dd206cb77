// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_stencils.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace by_hand {

namespace {
using every = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<long>>;
} // namespace

plate::plate(MPI_Comm comm, long rows, long columns)
    : comm_(comm), rows_(rows), columns_(columns),
      now_("now", static_cast<std::size_t>(rows + 2), static_cast<std::size_t>(columns)),
      next_("next", static_cast<std::size_t>(rows + 2), static_cast<std::size_t>(columns)) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}

void plate::exchange() {
  MPI_Request open[4];
  int n = 0;
  const auto swap = [&](int with, double* mine, double* theirs) {
    if (with < 0 || with >= size_) return;
    MPI_Irecv(theirs, static_cast<int>(columns_), MPI_DOUBLE, with, 0, comm_, open + n++);
    MPI_Isend(mine, static_cast<int>(columns_), MPI_DOUBLE, with, 0, comm_, open + n++);
  };
  swap(rank_ - 1, &now_(1, 0), &now_(0, 0));
  swap(rank_ + 1, &now_(rows_, 0), &now_(rows_ + 1, 0));
  MPI_Waitall(n, open, MPI_STATUSES_IGNORE);
}

void plate::take_border() {
  if (rank_ == 0) std::copy_n(&now_(1, 0), columns_, &next_(1, 0));
  if (rank_ + 1 == size_) std::copy_n(&now_(rows_, 0), columns_, &next_(rows_, 0));
}

void plate::sweep() {
  exchange();
  take_border();
  const auto from = now_, to = next_;
  const long columns = columns_;
  Kokkos::parallel_for(every(rank_ == 0 ? 2 : 1, rank_ + 1 == size_ ? rows_ : rows_ + 1), [=](long i) {
    to(i, 0) = from(i, 0);
    to(i, columns - 1) = from(i, columns - 1);
    for (long j = 1; j < columns - 1; ++j)
      to(i, j) = 0.25 * (from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1));
  });
  std::swap(now_, next_);
}

void plate::solve(double tolerance, int most) {
  for (int k = 0; k < most; ++k) {
    exchange();
    take_border();
    const auto from = now_, to = next_;
    const long columns = columns_;
    change_ = 0;
    Kokkos::parallel_reduce(
        every(rank_ == 0 ? 2 : 1, rank_ + 1 == size_ ? rows_ : rows_ + 1),
        [=](long i, double& most_here) {
          to(i, 0) = from(i, 0);
          to(i, columns - 1) = from(i, columns - 1);
          double largest = most_here;
          for (long j = 1; j < columns - 1; ++j) {
            const double next = 0.25 * (from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1));
            const double off = std::fabs(next - from(i, j));
            largest = off > largest ? off : largest;
            to(i, j) = next;
          }
          most_here = largest;
        },
        Kokkos::Max<double>(change_));
    MPI_Allreduce(MPI_IN_PLACE, &change_, 1, MPI_DOUBLE, MPI_MAX, comm_);
    std::swap(now_, next_);
    if (change_ < tolerance) return;
  }
}

void write_row(float* cache, const float* row, long position, long heads, long positions, long features) {
  for (long h = 0; h < heads; ++h)
    std::copy_n(row + h * features, features, cache + (h * positions + position) * features);
}

} // namespace by_hand
