// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stencils of two and three dims and conjugate gradients as an expert writes them with MPI and plain loops.
#pragma once

#include <mpi.h>

#include <utility>
#include <vector>

namespace by_hand {

/// What is beyond the first and the last plane: nothing, or the last and the first one.
enum class ends { open, joined };

/// A field [plane, element] whose planes are sharded, with room for `reach` planes of each neighbour.
template <class T>
class planes {
 public:
  planes(MPI_Comm comm, long mine, long elements, long reach, ends at = ends::open);
  T* data() { return all_.data() + reach_ * elements_; }
  const T* data() const { return all_.data() + reach_ * elements_; }
  /// Fetches the planes around those of this rank. Those beyond open ends stay as they are.
  void exchange();
  bool first() const { return rank_ == 0; }
  bool last() const { return rank_ + 1 == size_; }

 private:
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  long mine_, elements_, reach_;
  ends ends_;
  std::vector<T> all_;
};

/// A cube [n, n, n] whose border of `reach` elements is fixed. Each other element becomes the mean of the neighbours
/// in a star that reaches so far.
template <class T>
class cube {
 public:
  cube(MPI_Comm comm, long mine, long n, long reach, const T* start);
  void sweep();
  const T* data() const { return now_.data(); }

 private:
  template <long Reach>
  void sweep_planes();
  long mine_, n_, reach_;
  planes<T> now_, next_;
};

/// A square [n, n] likewise, with the five-point star.
template <class T>
class square {
 public:
  square(MPI_Comm comm, long mine, long n, const T* start);
  void sweep();
  const T* data() const { return now_.data(); }

 private:
  long mine_, n_;
  planes<T> now_, next_;
};

/// A square [n, n] whose opposite sides are joined: u becomes u + 0.1 times the Laplacian of u.
template <class T>
class torus {
 public:
  torus(MPI_Comm comm, long mine, long n, const T* start);
  void sweep();
  const T* data() const { return now_.data(); }

 private:
  long mine_, n_;
  planes<T> now_, next_;
};

/// Conjugate gradients for minus the Laplacian on a square [n, n], with zeros around it.
class poisson {
 public:
  poisson(MPI_Comm comm, long mine, long n, const double* right);
  /// So many iterations from zero.
  void solve(int iterations);
  const double* solution() const { return u_.data(); }

 private:
  double apply();
  double total(double mine) const;

  MPI_Comm comm_;
  long mine_, n_;
  const double* right_;
  planes<double> p_;
  std::vector<double> u_, r_, q_;
};

} // namespace by_hand
