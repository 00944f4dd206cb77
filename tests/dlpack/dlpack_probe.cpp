// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/cleave.hpp>
#include <cleave/interop/dlpack.hpp>

#include <mpi.h>

#include <cstdio>
#include <exception>
#include <memory>

// A library that Python loads: shards for numpy, and arrays of numpy as shards. numpy_dlpack.py calls it.

namespace {

namespace interop = cleave::interop;
using interop::dlpack::managed_tensor;
using interop::dlpack::managed_tensor_versioned;
inline constexpr cleave::axis<"ranks"> ranks;
inline constexpr cleave::mesh mesh{ranks};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using single = cleave::tensor<float, mesh(row / ranks, col)>;
using matrix = cleave::tensor<double, mesh(row / ranks, col)>;

std::unique_ptr<cleave::grid> grid;
matrix wrapped;

template <class Managed>
double wrap(void* given, std::int64_t rows, std::int64_t cols) {
  try {
    wrapped.rebind(interop::from_dlpack<matrix>(*grid, {rows, cols}, static_cast<Managed*>(given)));
    double all = 0;
    for (const double v : wrapped.to_global()) all += v;
    return all;
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    std::fflush(stdout);
    return -1;
  }
}

} // namespace

extern "C" {
void probe_start() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  Kokkos::initialize();
  grid.reset(new cleave::grid(mesh, MPI_COMM_WORLD, {1}));
}
/// The shard of a matrix of 3 x 4 numbers 10 i + j.
void* probe_shard(int versioned) {
  const single x(*grid, {3, 4});
  x.fill_by([](const auto& at) { return static_cast<float>(10 * at[0] + at[1]); });
  if (versioned != 0) return interop::to_dlpack<managed_tensor_versioned>(x);
  return interop::to_dlpack(x);
}
/// Wraps an array, and gives the sum of its elements; -1 where it is refused.
double probe_wrap(void* given, int versioned, std::int64_t rows, std::int64_t cols) {
  return versioned != 0 ? wrap<managed_tensor_versioned>(given, rows, cols) : wrap<managed_tensor>(given, rows, cols);
}
/// Doubles what was wrapped last; 0 if it may not be written.
int probe_double() {
  try {
    wrapped = 2 * wrapped;
    return 1;
  } catch (const cleave::view_error&) {
    return 0;
  }
}
void probe_drop() { wrapped.rebind(matrix()); }
void probe_end() {
  probe_drop();
  grid.reset();
  Kokkos::finalize();
  MPI_Finalize();
}
}
