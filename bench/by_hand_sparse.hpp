// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product with a sparse matrix as an expert writes it with MPI and KokkosSparse: rows in blocks over the ranks, the
// elements of others that they read behind the own ones in one array, and their indices exchanged once.
#pragma once

#include <mpi.h>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace by_hand {

class sparse_product {
 public:
  /// The rows of this rank, of a square matrix with `n` rows in blocks of ceil(n / ranks): where the entries of each
  /// begin, and the last end, with their columns in the whole matrix.
  sparse_product(MPI_Comm comm, std::int64_t n, const std::vector<int>& begins,
                 const std::vector<std::int64_t>& columns, const std::vector<double>& values);
  ~sparse_product();
  sparse_product(const sparse_product&) = delete;
  sparse_product& operator=(const sparse_product&) = delete;

  /// y = A x.
  void run();

  /// The own elements, then those of others.
  Kokkos::View<double*> x;
  Kokkos::View<double*> y;

 private:
  struct local_matrix;
  struct peer {
    int rank, count;
    std::int64_t first;
  };
  MPI_Comm comm_;
  std::vector<peer> from_, to_;
  Kokkos::View<int*> packed_;
  Kokkos::View<double*> send_;
  std::vector<MPI_Request> requests_;
  std::unique_ptr<local_matrix> matrix_;
};

} // namespace by_hand
