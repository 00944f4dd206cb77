// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/linalg/block_cyclic.hpp>
#include <cleave/linalg/kernels.hpp>
#include <cleave/linalg/recorded.hpp>
#include <cleave/shards.hpp>

// Triangular systems with one matrix over a mesh of two axes: docs/07-linear-algebra.md.

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {

/// An element of c += alpha a b, or of c += alpha a^T b.
template <class T>
struct add_to_elements {
  T alpha;
  rectangle<T> a, b, c;
  bool transposed;
  CLEAVE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t i = item / c.columns, j = item % c.columns;
    T sum = 0;
    for (std::int64_t k = 0; k < b.rows; ++k)
      sum += a.at[transposed ? k * a.leading + i : i * a.leading + k] * b.at[k * b.leading + j];
    c.at[i * c.leading + j] += alpha * sum;
  }
};
template <class T>
void add_product(T alpha, const rectangle<T>& a, bool transposed, const rectangle<T>& b, const rectangle<T>& c) {
  if (c.rows == 0 || c.columns == 0 || b.rows == 0) return;
#if CLEAVE_DIRECT_BLAS
  blas_add_product<T>(c.rows, c.columns, b.rows, alpha, {a.at, a.leading, transposed}, {b.at, b.leading}, T(1),
                      {c.at, c.leading});
#else
  launch("add product", c.rows * c.columns, add_to_elements<T>{alpha, a, b, c, transposed});
#endif
}

/// A column of x in l x = b or l^T x = b, in place; l is lower triangular.
template <class T>
struct solve_columns {
  rectangle<T> l, x;
  bool transposed;
  CLEAVE_FUNCTION void operator()(std::int64_t column) const {
    for (std::int64_t step = 0; step < x.rows; ++step) {
      const std::int64_t i = transposed ? x.rows - 1 - step : step;
      T rest = x.at[i * x.leading + column];
      for (std::int64_t k = transposed ? i + 1 : 0; k < (transposed ? x.rows : i); ++k)
        rest -= l.at[transposed ? k * l.leading + i : i * l.leading + k] * x.at[k * x.leading + column];
      x.at[i * x.leading + column] = rest / l.at[i * l.leading + i];
    }
  }
};
template <class T>
void solve_corner(const rectangle<T>& l, bool transposed, const rectangle<T>& x) {
  if (x.rows == 0 || x.columns == 0) return;
#if CLEAVE_DIRECT_BLAS
  const stepped<const T> matrix{l.at, l.leading, 1};
  // A single column is one for BLAS too.
  const stepped<T> sides = x.leading == 1 ? stepped<T>{x.at, 1, x.rows} : stepped<T>{x.at, x.leading, 1};
  blas_solve<T>(x.rows, x.columns, transposed ? matrix.turned() : matrix, !transposed, sides);
#else
  launch("trsm", x.columns, solve_columns<T>{l, x, transposed});
#endif
}

/// The indices that a device has of a dim, sharded or block-cyclic, at most.
constexpr std::int64_t most_held(const cyclic_dim& d, std::int64_t part) {
  return std::max(d.held(part), block_extent(d.extent, d.parts));
}

/// On block-cyclic copies of the matrix, and of the rows of the right-hand sides. Columns of the right-hand sides are
/// sharded as they were.
template <class T, MeshAxis RowAxis, MeshAxis ColAxis>
struct cyclic_solve {
  const local_context& here;
  cyclic_dim rows, columns;
  std::int64_t p, q, right;
  T *matrix = nullptr, *sides = nullptr, *panel = nullptr, *part = nullptr;

  /// `right`: the right-hand sides of this device.
  cyclic_solve(const local_context& on, std::int64_t n, std::int64_t block, std::int64_t right_sides)
      : here(on), rows{n, block, on.size(RowAxis{})}, columns{n, block, on.size(ColAxis{})}, p(on.index(RowAxis{})),
        q(on.index(ColAxis{})), right(right_sides) {}

  std::int64_t most_rows() const { return most_held(rows, p); }
  std::int64_t most_columns() const { return most_held(columns, q); }
  /// Elements of each of the arrays through which the matrix and the right-hand sides travel.
  std::int64_t share() const { return most_rows() * std::max(most_columns(), right); }

  void run(const shard& l, const shard& b, const shard& x, bool transposed, T* memory) {
    const std::int64_t m = rows.held(p), n = columns.held(q);
    matrix = memory;
    sides = matrix + most_rows() * most_columns();
    T *const half = sides + most_rows() * right, *const send = half + share(), *const receive = send + share();
    panel = receive + share();
    part = panel + rows.block * m;
    const auto matrix_of = [](const shard& s) {
      return rectangle<T>{static_cast<T*>(s.data), s.local[0], s.local[1], s.local[1]};
    };
    // Along an axis of one device both distributions are the same: that way nothing is copied.
    const bool by_rows = rows.parts > 1, by_columns = columns.parts > 1;
    if (!by_rows && !by_columns) matrix = static_cast<T*>(l.data);
    const rectangle<T> between{half, m, l.local[1], l.local[1]}, own{matrix, m, n, n};
    if (by_rows)
      redistribution<T>{rows, true, true, matrix_of(l), by_columns ? between : own, send, receive}.run(here, RowAxis{});
    if (by_columns)
      redistribution<T>{columns, false, true, by_rows ? between : matrix_of(l), own, send, receive}.run(here,
                                                                                                        ColAxis{});
    redistribution<T>{rows, true, true, matrix_of(b), own_sides(), send, receive}.run(here, RowAxis{});
    for (std::int64_t k = 0; k < rows.blocks(); ++k)
      if (transposed) step_back(rows.blocks() - 1 - k);
      else step(k);
    redistribution<T>{rows, true, false, own_sides(), matrix_of(x), send, receive}.run(here, RowAxis{});
  }

 private:
  static auto line(T* at, std::int64_t n) {
    return Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(at, as_size(n));
  }
  rectangle<T> own_sides() const { return {sides, rows.held(p), right, right}; }
  /// The rows of block column k from block row k on, on all devices of a row of the mesh.
  rectangle<T> broadcast_panel(std::int64_t k) const {
    const std::int64_t w = rows.size(k), from = rows.before(k, p), height = rows.held(p) - from;
    const rectangle<T> to{panel, height, w, w};
    if (columns.owner(k) == q)
      copy_rectangle<T>({matrix + from * columns.held(q) + columns.before(k, q), height, w, columns.held(q)}, to);
    here.broadcast(line(panel, height * w), columns.owner(k), ColAxis{});
    return to;
  }
  /// Subtracts the products with the solved unknowns of block k from the rows below.
  void step(std::int64_t k) {
    const std::int64_t w = rows.size(k), from = rows.before(k, p);
    const bool mine = rows.owner(k) == p;
    const rectangle<T> below = broadcast_panel(k), known{part, w, right, right};
    if (mine) {
      const rectangle<T> x = own_sides().part(from, 0, w, right);
      solve_corner<T>(below.part(0, 0, w, w), false, x);
      copy_rectangle<T>(x, known);
    }
    here.broadcast(line(part, w * right), rows.owner(k), RowAxis{});
    const std::int64_t skip = mine ? w : 0, height = below.rows - skip;
    add_product<T>(T(-1), below.part(skip, 0, height, w), false, known,
                   own_sides().part(from + skip, 0, height, right));
    // The next panel must not arrive before this one has been read.
    wait_for_kernels();
  }
  /// Subtracts the products with the unknowns below from the rows of block k.
  void step_back(std::int64_t k) {
    const std::int64_t w = rows.size(k), from = rows.before(k, p);
    const bool mine = rows.owner(k) == p;
    const rectangle<T> below = broadcast_panel(k), sum{part, w, right, right};
    const std::int64_t skip = mine ? w : 0, height = below.rows - skip;
    // Each device begins with its share of the right-hand side: all of it, or nothing.
    if (mine) copy_rectangle<T>(own_sides().part(from, 0, w, right), sum);
    else zero_bytes(part, bytes_of<T>(w * right));
    add_product<T>(T(-1), below.part(skip, 0, height, w), true, own_sides().part(from + skip, 0, height, right), sum);
    if (rows.parts > 1) here.all_reduce(line(part, w * right), reduction::sum, RowAxis{});
    if (mine) {
      solve_corner<T>(below.part(0, 0, w, w), true, sum);
      copy_rectangle<T>(sum, own_sides().part(from, 0, w, right));
    }
    wait_for_kernels();
  }
};

/// The bytes that a device moves in `cyclic_solve::run`: the elements that it lacks of the redistributed matrix and
/// right-hand sides and of the result, the rows of each panel, and the unknowns of each block, which are broadcast or
/// summed.
constexpr std::int64_t moved_for_solve(const cyclic_dim& rows, const cyclic_dim& columns, std::int64_t right,
                                       bool transposed, std::int64_t size, std::int64_t p, std::int64_t q) {
  // A dim moves as much on its way back.
  std::int64_t n = rows.arriving(p) * block(columns.extent, columns.parts, q).size() +
                   columns.arriving(q) * rows.held(p) + rows.moved(p) * right;
  std::int64_t summed = 0;
  for (std::int64_t k = 0; k < rows.blocks(); ++k) {
    if (columns.owner(k) != q) n += rows.size(k) * (rows.held(p) - rows.before(k, p));
    if (transposed) summed += 2 * (rows.parts - 1) * (rows.size(k) * right * size) / rows.parts;
    else if (rows.owner(k) != p) n += rows.size(k) * right;
  }
  return n * size + summed;
}

template <std::int64_t Block, std::int64_t Size, transpose Transposed, MeshAxis RowAxis, MeshAxis ColAxis,
          int RowNumber, int ColNumber>
struct grid_solve_kernel {
  static constexpr std::string_view name = "grid_triangular_solve";
  static constexpr bool transposed = Transposed == transpose::yes;

  static constexpr std::int64_t workspace(std::span<const shape> local, std::span<const shape> whole,
                                          const axis_sizes& axes, const coordinates& here) {
    const cyclic_dim rows{whole[0][0], Block, axes[RowNumber]}, columns{whole[0][0], Block, axes[ColNumber]};
    const std::int64_t m = most_held(rows, here[RowNumber]), n = most_held(columns, here[ColNumber]),
                       right = local[1][1];
    return Size * (m * (n + right) + 3 * m * std::max(n, right) + Block * (rows.held(here[RowNumber]) + right));
  }
  static constexpr std::int64_t bytes(std::span<const shape>, std::span<const shape> whole, const axis_sizes& axes) {
    const cyclic_dim rows{whole[0][0], Block, axes[RowNumber]}, columns{whole[0][0], Block, axes[ColNumber]};
    if (rows.extent == 0) return 0;
    return busiest(rows.parts, columns.parts, [&](std::int64_t p, std::int64_t q) {
      return moved_for_solve(rows, columns, block(whole[1][1], columns.parts, q).size(), transposed, Size, p, q);
    });
  }
  static constexpr double flops(std::span<const shape> whole, const shard_dims&) {
    return as_double(whole[0].elements()) * as_double(whole[1][1]);
  }
  void operator()(const local_context& here, std::span<const shard> in, const shard& out) const {
    if (out.element == element::f32) run<float>(here, in[0], in[1], out);
    else run<double>(here, in[0], in[1], out);
  }

 private:
  template <class T>
  static void run(const local_context& here, const shard& l, const shard& b, const shard& x) {
    const auto memory = here.workspace<T>();
    if (l.global[0] > 0)
      cyclic_solve<T, RowAxis, ColAxis>(here, l.global[0], Block, b.local[1]).run(l, b, x, transposed, memory.data());
  }
};

} // namespace detail

/// The solution of triangular systems with one matrix that all devices of a mesh of two axes compute together:
/// `grid_triangular_solve<64>(l, b, mesh(row / y, col / x), side)` is the x with `dot(l, x, col) == b`, and
/// `grid_triangular_solve<64, transpose::yes>(l, b, ...)` the one with `dot(l, x, row) == b`. l is lower triangular, as
/// from `grid_cholesky`.
///
/// Shapes: l has `row` and `col`, of one extent. b has `row` and `side`, the result `col` and `side`; for the transpose
/// it is the other way round. There are no other dims. An operand with its dims in the other order is copied. Elements:
/// float, double. Layouts: l is resharded to the given layout, and b to
/// (row / y, side / x); the result has (col / y, side / x). Inside, the matrix and the rows of b are moved to a
/// block-cyclic distribution with blocks of `Block` indices, so that the devices have equal work to the end.
/// Communication: that; and for each block, its panel of the matrix is broadcast along x, and its unknowns are
/// broadcast along y. For the transpose they are reduced along y.
///
/// Reads the lower half of l. A zero on the diagonal gives infinities or NaN. Workspace: up to four times the shards,
/// and a panel. There is no derivative. Faults: no_function_for_element, element_types_differ, dim_missing,
/// dim_used_twice, not_a_matrix, extents_differ. Algorithm: ScaLAPACK's p?trsm.
template <std::int64_t Block = 64, transpose Transposed = transpose::no, class Mesh, class Row, class RowAxis,
          class Col, class ColAxis, Dim Side>
constexpr value grid_triangular_solve(
    operand l, operand b,
    const sharding<Mesh, nothing_unreduced, sharded_dim<Row, RowAxis>, sharded_dim<Col, ColAxis>>& layout,
    const Side&) {
  static_assert(Block > 0);
  constexpr std::string_view what = "grid_triangular_solve";
  if (!b.from.ok()) return b.from;
  if (!detail::square(l, Row::ref, Col::ref, what)) return {l.from.in, no_node};
  recorder& in = *l.from.in;
  const element type = in.at(l.from).type.element;
  if (in.at(b.from).type.element != type) return in.fail(fault::element_types_differ, what, b.where);
  constexpr Mesh on{};
  constexpr int row_number = Mesh::value.find(RowAxis::info.name), col_number = Mesh::value.find(ColAxis::info.name);
  const spec by_row = on(Row{} / RowAxis{}, Side{} / ColAxis{}), by_col = on(Col{} / RowAxis{}, Side{} / ColAxis{});
  constexpr bool plain = Transposed == transpose::no;
  const value whole = detail::as_matrix(l, Row::ref, Col::ref, what),
              right = detail::as_matrix(b, plain ? Row::ref : Col::ref, Side::ref, what);
  if (!whole.ok() || !right.ok()) return whole.ok() ? right : whole;
  const value matrix = reshard(detail::at(whole, l.where), layout),
              sides = reshard(detail::at(right, b.where), plain ? by_row : by_col);
  if (!matrix.ok() || !sides.ok()) return matrix.ok() ? sides : matrix;
  return detail::for_size(type, [&]<std::int64_t Size>(std::integral_constant<std::int64_t, Size>) {
    return local_with_spec<
        detail::grid_solve_kernel<Block, Size, Transposed, RowAxis, ColAxis, row_number, col_number>>(
        std::array{matrix, sides}, type, plain ? by_col : by_row, l.where);
  });
}
CLEAVE_LIFT(grid_triangular_solve)

}}} // namespace cleave::v0::linalg
