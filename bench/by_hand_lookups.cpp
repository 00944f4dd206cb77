// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_lookups.hpp"

#include <algorithm>
#include <cstring>

namespace by_hand {

namespace {
using every = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<long>>;
} // namespace

void gather(const float* table, const int* indices, float* rows, long count, long length) {
  Kokkos::parallel_for(every(0, count), [=](long i) {
    const float* const from = table + indices[i] * length;
    for (long k = 0; k < length; ++k) rows[i * length + k] = from[k];
  });
}

void gather(const window& table, const int* indices, float* rows, long count, long length, long words) {
  table.meet();
  const window* const all = &table;
  Kokkos::parallel_for(every(0, count), [=](long i) {
    const long owner = indices[i] / words;
    const float* const from = all->of(static_cast<int>(owner)) + (indices[i] - owner * words) * length;
    for (long k = 0; k < length; ++k) rows[i * length + k] = from[k];
  });
  table.meet();
}

void scatter_add(const float* rows, const int* indices, float* table, long count, long length, long words) {
  std::fill(table, table + words * length, 0.0f);
  for (long i = 0; i < count; ++i) {
    float* const to = table + indices[i] * length;
    for (long k = 0; k < length; ++k) to[k] += rows[i * length + k];
  }
}

void scatter_add(const window& rows, const window& indices, float* table, long count, long length, long words) {
  std::fill(table, table + words * length, 0.0f);
  rows.meet();
  const long first = rows.rank() * words;
  for (int r = 0; r < rows.size(); ++r) {
    const float *const from = rows.of(r), *const at = indices.of(r);
    for (long i = 0; i < count; ++i) {
      int index = 0;
      std::memcpy(&index, at + i, sizeof index);
      const long row = index - first;
      if (row < 0 || row >= words) continue;
      float* const to = table + row * length;
      for (long k = 0; k < length; ++k) to[k] += from[i * length + k];
    }
  }
  rows.meet();
}

banded_product::banded_product(MPI_Comm comm, long rows, long slots, long band)
    : values("values", static_cast<std::size_t>(rows), static_cast<std::size_t>(slots)),
      columns("columns", static_cast<std::size_t>(rows), static_cast<std::size_t>(slots)),
      x("x", static_cast<std::size_t>(rows + 2 * band)), y("y", static_cast<std::size_t>(rows)), comm_(comm),
      rows_(rows), slots_(slots), band_(band) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}

void banded_product::exchange() {
  MPI_Request open[4];
  int n = 0;
  const auto swap = [&](int with, double* mine, double* theirs) {
    if (with < 0 || with >= size_) return;
    MPI_Irecv(theirs, static_cast<int>(band_), MPI_DOUBLE, with, 0, comm_, open + n++);
    MPI_Isend(mine, static_cast<int>(band_), MPI_DOUBLE, with, 0, comm_, open + n++);
  };
  swap(rank_ - 1, x.data() + band_, x.data());
  swap(rank_ + 1, x.data() + rows_, x.data() + band_ + rows_);
  MPI_Waitall(n, open, MPI_STATUSES_IGNORE);
}

void banded_product::run_by_entries(const int* rows_of) {
  exchange();
  std::fill_n(y.data(), rows_, 0.0);
  for (long k = 0; k < rows_ * slots_; ++k) y(rows_of[k]) += values.data()[k] * x(columns.data()[k]);
}

void banded_product::run() {
  exchange();
  const auto v = values;
  const auto c = columns;
  const auto from = x, to = y;
  const long slots = slots_;
  Kokkos::parallel_for(every(0, rows_), [=](long i) {
    double sum = 0;
    for (long s = 0; s < slots; ++s) sum += v(i, s) * from(c(i, s));
    to(i) = sum;
  });
}

} // namespace by_hand
