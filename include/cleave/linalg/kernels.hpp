// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/linalg/blas.hpp>
#include <cleave/linalg/recorded.hpp>
#include <cleave/shards.hpp>

#include <Kokkos_Core.hpp>

// Cholesky factors and triangular systems on shards. Large matrices on the host go through BLAS one after another; all
// others through kernels of Kokkos over the batch.

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {

template <class T>
using raw_view = Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
/// All elements of a shard, in the order of its memory.
template <class T>
raw_view<T> raw_view_of(const shard& s) {
  return raw_view<T>(as<T>(s.data), as_size(s.local.elements()));
}

/// From this order on a matrix is worth calls of BLAS.
inline constexpr std::int64_t large = 24;

} // namespace detail

/// The mean of each matrix and its transpose on and below the diagonal, 0 above it.
template <class T>
struct take_lower_half {
  square_matrices m;
  detail::raw_view<const T> from;
  detail::raw_view<T> to;

  CLEAVE_FUNCTION void operator()(std::int64_t item) const {
    std::int64_t at = 0, unused = 0;
    const std::int64_t row = item % m.n;
    m.batch.at(item / m.n, at, unused);
    for (std::int64_t column = 0; column < m.n; ++column) {
      const std::int64_t here = at + row * m.row_step + column * m.column_step,
                         mirrored = at + column * m.row_step + row * m.column_step;
      to(here) = column > row ? T(0) : (from(here) + from(mirrored)) / 2;
    }
  }
};

/// Factors matrices in place, one in each thread, on the host.
template <class T>
struct factor_each {
  square_matrices m;
  detail::raw_view<T> to;

  void operator()(std::int64_t item) const {
    std::int64_t at = 0, unused = 0;
    m.batch.at(item, at, unused);
    T* const l = to.data() + at;
    if (!factor_plainly(m.n, l, m.row_step, m.column_step)) not_a_number_below(m.n, l, m.row_step, m.column_step);
  }
};

/// Factors matrices in place, one in each team, column by column, on a GPU.
template <class T>
struct factor_in_teams {
  using member = Kokkos::TeamPolicy<execution_space>::member_type;
  square_matrices m;
  detail::raw_view<T> to;

  /// Element (i, j) of the factor, given those to the left.
  struct column_of {
    T* l;
    std::int64_t row_step, column_step, j;
    T pivot;
    CLEAVE_FUNCTION T rest(std::int64_t i) const {
      T r = l[i * row_step + j * column_step];
      for (std::int64_t k = 0; k < j; ++k) r -= l[i * row_step + k * column_step] * l[j * row_step + k * column_step];
      return r;
    }
    CLEAVE_FUNCTION void operator()(std::int64_t i) const { l[i * row_step + j * column_step] = rest(i) / pivot; }
  };
  struct not_a_number {
    T* l;
    std::int64_t row_step, column_step;
    CLEAVE_FUNCTION void operator()(std::int64_t i) const {
      for (std::int64_t j = 0; j <= i; ++j) l[i * row_step + j * column_step] = Kokkos::Experimental::quiet_NaN_v<T>;
    }
  };

  CLEAVE_FUNCTION void operator()(const member& team) const {
    std::int64_t at = 0, unused = 0;
    m.batch.at(team.league_rank(), at, unused);
    T* const l = to.data() + at;
    for (std::int64_t j = 0; j < m.n; ++j) {
      column_of column{l, m.row_step, m.column_step, j, T(0)};
      const T rest = column.rest(j);
      if (!(rest > T(0))) {
        team.team_barrier();
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, std::int64_t{0}, m.n),
                             not_a_number{l, m.row_step, m.column_step});
        return;
      }
      column.pivot = Kokkos::sqrt(rest);
      // All threads have read the diagonal before one of them replaces it.
      team.team_barrier();
      if (team.team_rank() == 0) l[j * (m.row_step + m.column_step)] = column.pivot;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, j + 1, m.n), column);
      team.team_barrier();
    }
  }
};

/// Solves one system for one right-hand side in place.
template <class T>
struct substitute_each {
  triangular_systems s;
  detail::raw_view<const T> l;
  detail::raw_view<T> x;

  CLEAVE_FUNCTION void operator()(std::int64_t item) const {
    std::int64_t in_x = 0, in_l = 0;
    s.columns.at(item, in_x, in_l);
    substitute(s, l.data() + in_l, x.data() + in_x);
  }
};

namespace detail {

#if CLEAVE_DIRECT_BLAS

/// Factors a matrix in place, by blocks of columns: a small factor, a triangular solve below it, and a rank-k update of
/// the rest. False where it is not positive definite.
template <class T>
bool factor_by_blocks(std::int64_t n, stepped<T> l) {
  constexpr std::int64_t block = 48;
  for (std::int64_t from = 0; from < n; from += block) {
    const std::int64_t width = std::min(block, n - from), below = n - from - width;
    const stepped<T> corner = l.part(from, from), panel = l.part(from + width, from);
    if (!factor_plainly(width, corner.at, corner.row_step, corner.column_step)) return false;
    if (below == 0) break;
    // panel L^T = a is L panel^T = a^T.
    blas_solve<T>(width, below, {corner.at, corner.row_step, corner.column_step}, true, panel.turned());
    blas_downdate(below, width, panel, l.part(from + width, from + width));
  }
  return true;
}
template <class T>
bool factor_by_blas(const square_matrices& m, T* to) {
  if (m.n < large || !stepped<T>{to, m.row_step, m.column_step}.fits(m.n, m.n)) return false;
  for (std::int64_t b = 0, at = 0, unused = 0; b < m.batch.count(); ++b) {
    m.batch.at(b, at, unused);
    const stepped<T> l{to + at, m.row_step, m.column_step};
    if (!factor_by_blocks(m.n, l)) not_a_number_below(m.n, l.at, m.row_step, m.column_step);
  }
  return true;
}
/// With the right-hand sides along one dim, or along several that are one in memory, as the columns of a call.
template <class T>
bool solve_by_blas(const triangular_systems& s, const T* l, T* x) {
  if (s.n < large) return false;
  std::int64_t m = 0, step = 0;
  batch_loop others;
  for (int d = s.columns.rank - 1; d >= 0; --d) {
    const bool shared = s.columns.second[d] == 0;
    if (shared && m == 0) m = s.columns.extent[d], step = s.columns.first[d];
    else if (shared && s.columns.first[d] == m * step) m *= s.columns.extent[d];
    else others.add(s.columns.extent[d], s.columns.first[d], s.columns.second[d]);
  }
  if (m == 0) m = 1, step = s.step == 1 ? s.n : 1;
  const stepped<const T> matrix{l, s.row_step, s.column_step};
  const stepped<T> columns{x, s.step, step};
  if (!matrix.fits(s.n, s.n) || !columns.fits(s.n, m)) return false;
  for (std::int64_t b = 0, in_x = 0, in_l = 0; b < others.count(); ++b) {
    others.at(b, in_x, in_l);
    blas_solve<T>(s.n, m, {l + in_l, s.row_step, s.column_step}, s.lower, {x + in_x, s.step, step});
  }
  return true;
}

#else

template <class T>
bool factor_by_blas(const square_matrices&, T*) {
  return false;
}
template <class T>
bool solve_by_blas(const triangular_systems&, const T*, T*) {
  return false;
}

#endif

template <class T>
void run_factor(const shard& a, const shard& l, dim_ref rows, dim_ref columns) {
  const square_matrices m = matrices_of(l, rows, columns);
  const std::int64_t matrices = m.batch.count();
  if (l.local.elements() == 0) return;
  const raw_view<T> to = raw_view_of<T>(l);
  launch("lower half", matrices * m.n, take_lower_half<T>{m, raw_view_of<const T>(a), to});
  if (factor_by_blas(m, to.data())) return;
  if constexpr (on_host) launch("cholesky", matrices, factor_each<T>{m, to});
  else
    Kokkos::parallel_for("cholesky",
                         Kokkos::TeamPolicy<execution_space>(execution_instance(), as_int(matrices), Kokkos::AUTO),
                         factor_in_teams<T>{m, to});
}

template <class T>
void run_solve(const shard& b, const shard& l, const shard& x, dim_ref rows, dim_ref columns, bool lower,
               bool transposed) {
  const triangular_systems s = systems_of(l, x, rows, columns, lower, transposed);
  const std::int64_t size = x.local.elements();
  if (size == 0) return;
  const raw_view<const T> triangles = raw_view_of<const T>(l);
  const raw_view<T> to = raw_view_of<T>(x);
  copy_bytes(x.data, b.data, bytes_of<T>(size));
  if (solve_by_blas(s, triangles.data(), to.data())) return;
  launch("trsm", s.columns.count(), substitute_each<T>{s, triangles, to});
}

template <class Rows, class Columns>
void factor_kernel<Rows, Columns>::operator()(const local_context&, std::span<const shard> in, const shard& out) const {
  if (out.element == element::f32) run_factor<float>(in[0], out, Rows::ref, Columns::ref);
  else run_factor<double>(in[0], out, Rows::ref, Columns::ref);
}
template <class Rows, class Columns, triangle Which, transpose Transposed>
void solve_kernel<Rows, Columns, Which, Transposed>::operator()(const local_context&, std::span<const shard> in,
                                                                const shard& out) const {
  if (out.element == element::f32) run_solve<float>(in[0], in[1], out, Rows::ref, Columns::ref, lower, transposed);
  else run_solve<double>(in[0], in[1], out, Rows::ref, Columns::ref, lower, transposed);
}

} // namespace detail

}}} // namespace cleave::v0::linalg
