// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/linalg/block_cyclic.hpp>
#include <cleave/linalg/kernels.hpp>
#include <cleave/linalg/recorded.hpp>
#include <cleave/shards.hpp>

#include <cmath>

// Cholesky factors of one matrix over a mesh of two axes: docs/07-linear-algebra.md.

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {

/// An element of c -= a b^T.
template <class T>
struct downdate_elements {
  rectangle<T> a, b, c;
  CLEAVE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t i = item / c.columns, j = item % c.columns;
    T sum = 0;
    for (std::int64_t k = 0; k < a.columns; ++k) sum += a.at[i * a.leading + k] * b.at[j * b.leading + k];
    c.at[i * c.leading + j] -= sum;
  }
};
/// c -= a b^T.
template <class T>
void downdate(const rectangle<T>& a, const rectangle<T>& b, const rectangle<T>& c) {
  if (c.rows == 0 || c.columns == 0) return;
#if CLEAVE_DIRECT_BLAS
  blas_add_product<T>(c.rows, c.columns, a.columns, T(-1), {a.at, a.leading}, {b.at, b.leading, true}, T(1),
                      {c.at, c.leading});
#else
  launch("downdate", c.rows * c.columns, downdate_elements<T>{a, b, c});
#endif
}
/// A row of x in x l^T = a, in place; l is lower triangular and has no gaps between its rows.
template <class T>
struct solve_rows {
  const T* l;
  rectangle<T> x;
  CLEAVE_FUNCTION void operator()(std::int64_t row) const {
    T* const at = x.at + row * x.leading;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      T rest = at[i];
      for (std::int64_t k = 0; k < i; ++k) rest -= l[i * x.columns + k] * at[k];
      at[i] = rest / l[i * x.columns + i];
    }
  }
};
template <class T>
void solve_panel(const T* l, const rectangle<T>& x) {
  if (x.rows == 0 || x.columns == 0) return;
#if CLEAVE_DIRECT_BLAS
  blas_solve<T>(x.columns, x.rows, {l, x.columns, 1}, true, {x.at, 1, x.leading});
#else
  launch("trsm", x.rows, solve_rows<T>{l, x});
#endif
}
/// The factor below the diagonal and 0 above it, or NaN in place of a factor that does not exist.
template <class T>
struct finish_factor {
  T* l;
  std::int64_t columns, first_row, first_column;
  bool exists;
  CLEAVE_FUNCTION void operator()(std::int64_t row) const {
    for (std::int64_t j = 0; j < columns; ++j) {
      const bool above = first_column + j > first_row + row;
      if (above) l[row * columns + j] = T(0);
      else if (!exists) l[row * columns + j] = Kokkos::Experimental::quiet_NaN_v<T>;
    }
  }
};

/// Elements of each of the four arrays that hold a share of the matrix: sharded, block-cyclic, or half way.
constexpr std::int64_t share_for_factor(const cyclic_dim& rows, const cyclic_dim& columns, std::int64_t p,
                                        std::int64_t q) {
  return std::max(rows.held(p), block_extent(rows.extent, rows.parts)) *
         std::max(columns.held(q), block_extent(columns.extent, columns.parts));
}

/// Right-looking, on block-cyclic copies of the shards.
template <class T, MeshAxis RowAxis, MeshAxis ColAxis>
struct cyclic_factor {
  const local_context& here;
  cyclic_dim rows, columns;
  std::int64_t p, q;
  bool exists = true;
  T *matrix = nullptr, *corner = nullptr, *panel = nullptr, *turned = nullptr, *piece = nullptr;

  cyclic_factor(const local_context& on, std::int64_t n, std::int64_t block)
      : here(on), rows{n, block, on.size(RowAxis{})}, columns{n, block, on.size(ColAxis{})}, p(on.index(RowAxis{})),
        q(on.index(ColAxis{})) {}

  std::int64_t share() const { return share_for_factor(rows, columns, p, q); }

  void run(const shard& a, const shard& l, T* memory) {
    // All devices make the communicators, since only some of them use both at a time.
    static_cast<void>(here.comm(RowAxis{}));
    static_cast<void>(here.comm(ColAxis{}));
    const std::int64_t m = rows.held(p), n = columns.held(q), w = rows.block;
    T *const half = memory + share(), *const send = half + share(), *const receive = send + share();
    const rectangle<T> given{static_cast<T*>(a.data), a.local[0], a.local[1], a.local[1]},
        result{static_cast<T*>(l.data), l.local[0], l.local[1], l.local[1]};
    // Along an axis of one device both distributions are the same: that way nothing is copied.
    const bool by_rows = rows.parts > 1, by_columns = columns.parts > 1;
    matrix = by_rows || by_columns ? memory : result.at;
    corner = receive + share();
    panel = corner + w * w;
    turned = panel + w * m;
    piece = turned + w * n;
    const rectangle<T> between{half, m, a.local[1], a.local[1]}, arrived = by_columns ? between : own(),
                                                                 leaving = by_rows ? between : result;
    if (by_rows || !by_columns) redistribution<T>{rows, true, true, given, arrived, send, receive}.run(here, RowAxis{});
    if (by_columns)
      redistribution<T>{columns, false, true, by_rows ? between : given, own(), send, receive}.run(here, ColAxis{});
    for (std::int64_t k = 0; k < rows.blocks(); ++k) step(k);
    if (by_columns) redistribution<T>{columns, false, false, own(), leaving, send, receive}.run(here, ColAxis{});
    if (by_rows) redistribution<T>{rows, true, false, arrived, result, send, receive}.run(here, RowAxis{});
    launch("finish factor", l.local[0],
           finish_factor<T>{result.at, l.local[1], l.offset[0], l.offset[1], exists_everywhere(piece + w * n)});
  }

 private:
  static auto line(T* at, std::int64_t n) {
    return Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(at, as_size(n));
  }
  rectangle<T> own() const { return {matrix, rows.held(p), columns.held(q), columns.held(q)}; }
  void step(std::int64_t k) {
    const std::int64_t w = rows.size(k), at_row = rows.before(k, p), at_column = columns.before(k, q),
                       below = rows.before(k + 1, p), height = rows.held(p) - below;
    if (columns.owner(k) == q) {
      if (rows.owner(k) == p) factor_corner(own().part(at_row, at_column, w, w));
      here.broadcast(line(corner, w * w), rows.owner(k), RowAxis{});
      const rectangle<T> x = own().part(below, at_column, height, w);
      solve_panel<T>(corner, x);
      copy_rectangle<T>(x, {panel, height, w, w});
    }
    here.broadcast(line(panel, height * w), columns.owner(k), ColAxis{});
    turn_panel(k + 1, w);
    const std::int64_t beside = columns.before(k + 1, q);
    for (std::int64_t j = k + 1; j < columns.blocks(); ++j) {
      if (columns.owner(j) != q) continue;
      const std::int64_t from = rows.before(j, p), column = columns.before(j, q), width = columns.size(j);
      downdate<T>({panel + (from - below) * w, rows.held(p) - from, w, w},
                  {turned + (column - beside) * w, width, w, w}, own().part(from, column, rows.held(p) - from, width));
    }
  }
  /// On the host: the corner is small, and one device computes it.
  void factor_corner(const rectangle<T>& block) {
    const std::int64_t w = block.rows;
    copy_rectangle<T>(block, {corner, w, w, w});
    indexed_vector<T> host;
    host.resize(as_size(w * w));
    wait_for_kernels();
    copy_bytes<Kokkos::HostSpace, memory_space>(host.data(), corner, bytes_of<T>(w * w));
    if (!factor_plainly(w, host.data(), w, 1)) {
      not_a_number_below(w, host.data(), w, 1);
      exists = false;
    }
    copy_bytes<memory_space, Kokkos::HostSpace>(corner, host.data(), bytes_of<T>(w * w));
    copy_rectangle<T>({corner, w, w, w}, block);
  }
  /// The rows of the panel that are this device's columns of the rest of the matrix, from row block `first` on. The
  /// devices of a column of the mesh have them by turns.
  void turn_panel(std::int64_t first, std::int64_t w) {
    for (std::int64_t owner = 0; owner < rows.parts; ++owner) {
      if (const std::int64_t n = copy_blocks(owner, first, w, true); n > 0) {
        here.broadcast(line(piece, n * w), owner, RowAxis{});
        copy_blocks(owner, first, w, false);
        // The next piece must not arrive before this one has been read.
        wait_for_kernels();
      }
    }
  }
  /// Copies between the panel and the piece of a device that has rows of it (`pack`), or between the piece and the
  /// transposed rows. Returns the number of rows of the piece.
  std::int64_t copy_blocks(std::int64_t owner, std::int64_t first, std::int64_t w, bool pack) const {
    std::int64_t n = 0;
    for (std::int64_t j = first; j < rows.blocks(); ++j) {
      if (rows.owner(j) != owner || columns.owner(j) != q) continue;
      const std::int64_t height = rows.size(j);
      const rectangle<T> in_piece{piece + n * w, height, w, w};
      if (!pack)
        copy_rectangle(in_piece, {turned + (columns.before(j, q) - columns.before(first, q)) * w, height, w, w});
      else if (owner == p)
        copy_rectangle({panel + (rows.before(j, p) - rows.before(first, p)) * w, height, w, w}, in_piece);
      n += height;
    }
    return n;
  }
  /// Whether all corners had a factor, on all devices. `number` is memory for one.
  bool exists_everywhere(T* number) const {
    T fails = exists ? T(0) : T(1);
    copy_bytes<memory_space, Kokkos::HostSpace>(number, &fails, bytes_of<T>(1));
    here.all_reduce(line(number, 1), reduction::max, RowAxis{}, ColAxis{});
    copy_bytes<Kokkos::HostSpace, memory_space>(&fails, number, bytes_of<T>(1));
    return fails == T(0);
  }
};

/// The elements that a device receives in `cyclic_factor::run`: of both redistributions the elements that it lacks; for
/// each block of columns the corner, its rows of the panel, and the panel's rows that are its columns.
constexpr std::int64_t received_for_factor(const cyclic_dim& rows, const cyclic_dim& columns, std::int64_t p,
                                           std::int64_t q) {
  const std::int64_t nb = rows.block;
  std::int64_t n = rows.moved(p) * block(columns.extent, columns.parts, q).size() + columns.moved(q) * rows.held(p);
  for (std::int64_t k = q; k < columns.blocks(); k += columns.parts)
    if (rows.owner(k) != p) n += rows.size(k) * (rows.size(k) + nb * k);
  for (std::int64_t k = p; k < rows.blocks(); k += rows.parts) n += rows.size(k) * (nb * k - columns.before(k, q));
  return n;
}

template <std::int64_t Block, std::int64_t Size, MeshAxis RowAxis, MeshAxis ColAxis, int RowNumber, int ColNumber>
struct grid_factor_kernel {
  static constexpr std::string_view name = "grid_cholesky";

  static constexpr std::int64_t workspace(std::span<const shape>, std::span<const shape> whole, const axis_sizes& axes,
                                          const coordinates& here) {
    const cyclic_dim rows{whole[0][0], Block, axes[RowNumber]}, columns{whole[0][0], Block, axes[ColNumber]};
    const std::int64_t p = here[RowNumber], q = here[ColNumber];
    return Size * (4 * share_for_factor(rows, columns, p, q) + Block * Block + Block * rows.held(p) +
                   2 * Block * columns.held(q) + 1);
  }
  static constexpr std::int64_t bytes(std::span<const shape>, std::span<const shape> whole, const axis_sizes& axes) {
    const cyclic_dim rows{whole[0][0], Block, axes[RowNumber]}, columns{whole[0][0], Block, axes[ColNumber]};
    if (rows.extent == 0) return 0;
    const std::int64_t all = rows.parts * columns.parts;
    // And an all-reduce of one number.
    return 2 * (all - 1) * Size / all + Size * busiest(rows.parts, columns.parts, [&](std::int64_t p, std::int64_t q) {
                                          return received_for_factor(rows, columns, p, q);
                                        });
  }
  static constexpr double flops(std::span<const shape> whole, const shard_dims&) {
    const auto n = as_double(whole[0][0]);
    return n * n * n / 3;
  }
  void operator()(const local_context& here, std::span<const shard> in, const shard& out) const {
    if (out.element == element::f32) run<float>(here, in[0], out);
    else run<double>(here, in[0], out);
  }

 private:
  template <class T>
  static void run(const local_context& here, const shard& a, const shard& l) {
    const auto memory = here.workspace<T>();
    if (a.global[0] > 0) cyclic_factor<T, RowAxis, ColAxis>(here, a.global[0], Block).run(a, l, memory.data());
  }
};

} // namespace detail

/// The lower Cholesky factor of one symmetric positive definite matrix that all devices of a mesh of two axes compute
/// together: `grid_cholesky<64>(a, mesh(row / y, col / x))`. It is zero above the diagonal; the sum over col of
/// l(row, col) l(row', col) is a.
///
/// Shapes: a has `row` and `col`, of one extent, and no other dims, and so has the result. If its dims are in the other
/// order, it is copied. Elements: float, double. Layouts: a is
/// resharded to the given layout, which the result has. Inside, the matrix is moved to a block-cyclic distribution with
/// blocks of `Block` rows and columns and back, so that the devices have equal work to the end. Communication: that
/// twice, and for each block of columns its panel is broadcast along both axes.
///
/// Reads the lower half of a. A matrix that is not positive definite gives NaN on and below the diagonal. Workspace:
/// four times the shard and four panels. There is no derivative. Faults:
/// no_function_for_element, dim_missing, not_a_matrix, extents_differ, blocks_not_equal. Algorithm: right-looking
/// (ScaLAPACK's p?potrf).
template <std::int64_t Block = 64, class Mesh, class Row, class RowAxis, class Col, class ColAxis>
constexpr value grid_cholesky(
    operand a, const sharding<Mesh, nothing_unreduced, sharded_dim<Row, RowAxis>, sharded_dim<Col, ColAxis>>& layout) {
  static_assert(Block > 0);
  if (!detail::square(a, Row::ref, Col::ref, "grid_cholesky")) return {a.from.in, no_node};
  recorder& in = *a.from.in;
  const value whole = detail::as_matrix(a, Row::ref, Col::ref, "grid_cholesky");
  if (!whole.ok()) return whole;
  const value placed = reshard(detail::at(whole, a.where), layout);
  if (!placed.ok()) return placed;
  constexpr int row_number = Mesh::value.find(RowAxis::info.name), col_number = Mesh::value.find(ColAxis::info.name);
  return detail::for_size(in.at(placed).type.element, [&]<std::int64_t Size>(
                                                          std::integral_constant<std::int64_t, Size>) {
    return local_with_spec<detail::grid_factor_kernel<Block, Size, RowAxis, ColAxis, row_number, col_number>>(
        std::array{placed}, in.at(placed).type.element, layout, a.where);
  });
}
CLEAVE_LIFT(grid_cholesky)

}}} // namespace cleave::v0::linalg
