// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs by hand that memory and messages decide: what an expert writes with MPI, OpenBLAS and a window of memory
// that the ranks of a node share.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace by_hand {

/// Memory of each rank that all ranks of the communicator read and write.
class window {
 public:
  window(MPI_Comm comm, std::size_t floats);
  ~window();
  window(const window&) = delete;
  window& operator=(const window&) = delete;

  int size() const { return size_; }
  int rank() const { return rank_; }
  float* of(int rank) const { return at_[static_cast<std::size_t>(rank)]; }
  float* own() const { return of(rank_); }
  /// All ranks have come here, and see what the others wrote.
  void meet() const;

 private:
  MPI_Comm comm_;
  MPI_Win handle_ = MPI_WIN_NULL;
  int size_ = 0, rank_ = 0;
  std::vector<float*> at_;
};

/// c = a b, row-major.
void product(long m, long n, long k, const float* a, const float* b, float* c);
/// The sum of the first n elements of all ranks' memory, in `out`.
void all_reduce(const window& w, long n, float* out);
/// This rank's part of that sum.
void reduce_scatter(const window& w, long n, float* out);
/// A side x side matrix in the windows, sharded by rows; its columns of this rank, in `out`.
void reshard(const window& w, long side, float* out);

/// Ten operations on each element; `out` may be `in` in the second.
void chain(const float* in, float* out, long n);
void chain_in_place(float* at, long n);

/// The mean cross entropy of rows whose words are sharded, and its gradient.
class entropy {
 public:
  entropy(MPI_Comm comm, long rows, long words, const float* scores, const int* labels);
  float loss();
  float loss_and_gradient(float* gradient);

 private:
  MPI_Comm comm_;
  long rows_, words_, first_, mine_;
  const float* scores_;
  const int* labels_;
  std::vector<float> most_, most_of_all_, sums_, sums_of_all_;
};

} // namespace by_hand
