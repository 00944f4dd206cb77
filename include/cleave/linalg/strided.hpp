// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/operation.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

// Matrices in a shard. Dims are found by name and read with their strides, so that no order of dims needs a copy.

namespace cleave { inline namespace v0 { namespace linalg {

/// A loop over dims, with the step of two tensors along each; 0 along a dim that a tensor does not have.
struct batch_loop {
  int rank = 0;
  std::int64_t extent[max_rank]{};
  std::int64_t first[max_rank]{}, second[max_rank]{};

  CLEAVE_FUNCTION std::int64_t count() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= extent[d];
    return n;
  }
  /// The offsets in both tensors of one iteration.
  CLEAVE_FUNCTION void at(std::int64_t i, std::int64_t& in_first, std::int64_t& in_second) const {
    in_first = in_second = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t index = i % extent[d];
      i /= extent[d];
      in_first += index * first[d];
      in_second += index * second[d];
    }
  }
  void add(std::int64_t n, std::int64_t step_in_first, std::int64_t step_in_second) {
    extent[rank] = n;
    first[rank] = step_in_first;
    second[rank++] = step_in_second;
  }
};

namespace detail {

/// The elements between neighbours along a dim of a shard (of shard or reference_shard), 0 where it does not have the
/// dim.
template <class Shard>
std::int64_t step_along(const Shard& s, int position) {
  if (position < 0) return 0;
  std::int64_t step = 1;
  for (int i = position + 1; i < s.local.rank; ++i) step *= s.local[i];
  return step;
}

} // namespace detail

/// Square matrices in a tensor, which a loop over the other dims reaches as the first of two.
struct square_matrices {
  std::int64_t n = 0, row_step = 0, column_step = 0;
  batch_loop batch{};
};

template <class Shard>
square_matrices matrices_of(const Shard& s, dim_ref rows, dim_ref columns) {
  const int r = s.dims.find(rows), c = s.dims.find(columns);
  square_matrices m{s.local[r], detail::step_along(s, r), detail::step_along(s, c), {}};
  for (int i = 0; i < s.local.rank; ++i)
    if (i != r && i != c) m.batch.add(s.local[i], detail::step_along(s, i), 0);
  return m;
}

/// The Cholesky factor of a matrix in place. Only the lower half is read and written. False if the matrix is not
/// positive definite; the later columns are not computed then. For the host.
template <class T>
bool factor_plainly(std::int64_t n, T* l, std::int64_t row_step, std::int64_t column_step) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = j; i < n; ++i) {
      T rest = l[i * row_step + j * column_step];
      for (std::int64_t k = 0; k < j; ++k)
        rest -= l[i * row_step + k * column_step] * l[j * row_step + k * column_step];
      if (i == j && !(rest > T(0))) return false;
      l[i * row_step + j * column_step] = i == j ? std::sqrt(rest) : rest / l[j * row_step + j * column_step];
    }
  return true;
}
template <class T>
void not_a_number_below(std::int64_t n, T* l, std::int64_t row_step, std::int64_t column_step) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) l[i * row_step + j * column_step] = std::numeric_limits<T>::quiet_NaN();
}

/// Triangular systems, ready for substitution in place: matrix (i, j) is at i * row_step + j * column_step of the
/// second tensor, element i of the right-hand side and of the solution at i * step of the first. Transposition is a
/// change of steps.
struct triangular_systems {
  std::int64_t n = 0, row_step = 0, column_step = 0, step = 0;
  bool lower = true;
  /// Over the dims of the right-hand side but for the one that is solved for.
  batch_loop columns{};
};

/// `solved`: the dim of the result that takes the place of the right-hand side's.
template <class Shard>
triangular_systems systems_of(const Shard& l, const Shard& x, dim_ref rows, dim_ref columns, bool lower,
                              bool transposed) {
  const dim_ref solved = transposed ? rows : columns;
  const std::int64_t along_rows = detail::step_along(l, l.dims.find(rows)),
                     along_columns = detail::step_along(l, l.dims.find(columns));
  const int position = x.dims.find(solved);
  triangular_systems s;
  s.n = x.local[position];
  s.row_step = transposed ? along_columns : along_rows;
  s.column_step = transposed ? along_rows : along_columns;
  s.step = detail::step_along(x, position);
  s.lower = lower != transposed;
  for (int i = 0; i < x.local.rank; ++i)
    if (i != position)
      s.columns.add(x.local[i], detail::step_along(x, i),
                    detail::step_along(l, l.dims.find({x.dims.names[as_size(i)]})));
  return s;
}

/// Forward or back substitution for one column, in place.
template <class T>
CLEAVE_FUNCTION void substitute(const triangular_systems& s, const T* l, T* x) {
  for (std::int64_t k = 0; k < s.n; ++k) {
    const std::int64_t i = s.lower ? k : s.n - 1 - k;
    const std::int64_t begin = s.lower ? 0 : i + 1, end = s.lower ? i : s.n;
    T rest = x[i * s.step];
    for (std::int64_t j = begin; j < end; ++j) rest -= l[i * s.row_step + j * s.column_step] * x[j * s.step];
    x[i * s.step] = rest / l[i * s.row_step + i * s.column_step];
  }
}

}}} // namespace cleave::v0::linalg
