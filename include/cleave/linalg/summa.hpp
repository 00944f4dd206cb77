// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/linalg/blas.hpp>
#include <cleave/linalg/recorded.hpp>
#include <cleave/shards.hpp>

#if !CLEAVE_DIRECT_BLAS
#include <KokkosBlas3_gemm.hpp>
#endif

#include <algorithm>

// Products over a mesh of two axes, panel by panel, in little workspace: docs/07-linear-algebra.md.

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {

/// A row-major matrix in a shard or in a part of it.
template <class T>
struct panel_ref {
  T* at = nullptr;
  std::int64_t rows = 0, columns = 0, leading = 0;
};

/// c = a b, or c += a b.
template <class T>
void multiply_panels(const panel_ref<const T>& a, const panel_ref<const T>& b, const panel_ref<T>& c, bool add) {
  if (c.rows == 0 || c.columns == 0) return;
  const T before = add ? T(1) : T(0);
#if CLEAVE_DIRECT_BLAS
  // BLAS wants at least one element between rows that have none.
  const auto leading = [](std::int64_t l, std::int64_t columns) { return std::max({l, columns, std::int64_t{1}}); };
  blas_add_product<T>(c.rows, c.columns, a.columns, T(1), {a.at, leading(a.leading, a.columns)},
                      {b.at, leading(b.leading, b.columns)}, before, {c.at, leading(c.leading, c.columns)});
#else
  const auto view_of = []<class U>(const panel_ref<U>& p) {
    using view = Kokkos::View<U**, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    return Kokkos::subview(view(p.at, as_size(p.rows), as_size(p.leading)), Kokkos::ALL,
                           std::pair<std::size_t, std::size_t>(0, as_size(p.columns)));
  };
  const auto alone = lock_device_blas();
  KokkosBlas::gemm(execution_instance(), "N", "N", T(1), view_of(a), view_of(b), before, view_of(c));
#endif
}

/// Some columns of a matrix, one row after the other.
template <class T>
struct pack_columns {
  panel_ref<const T> from;
  T* to;
  CLEAVE_FUNCTION void operator()(std::int64_t row) const {
    for (std::int64_t j = 0; j < from.columns; ++j) to[row * from.columns + j] = from.at[row * from.leading + j];
  }
};

/// The layers of devices among which the inner dim is divided: the devices along an axis, or one layer.
template <class LayerAxis, int Number>
struct layers {
  static constexpr std::int64_t count(const axis_sizes& axes) { return axes[Number]; }
  static std::int64_t count(const local_context& here) { return here.size(LayerAxis{}); }
  static range part(const local_context& here, std::int64_t inner) {
    return block(inner, count(here), here.index(LayerAxis{}));
  }
};
struct one_layer {
  static std::int64_t count(const local_context&) { return 1; }
  static constexpr std::int64_t count(const axis_sizes&) { return 1; }
  static range part(const local_context&, std::int64_t inner) { return {0, inner}; }
};

/// The most elements that a device receives: of the part of its layer, its rows of a and its columns of b, without the
/// elements that it has.
constexpr std::int64_t received_for_summa(const shape& a, const shape& b, std::int64_t rows, std::int64_t columns,
                                          std::int64_t layers) {
  std::int64_t most = 0;
  for (std::int64_t l = 0; l < layers; ++l)
    for (std::int64_t p = 0; p < rows; ++p)
      for (std::int64_t q = 0; q < columns; ++q) {
        const range part = block(a[1], layers, l);
        const auto lacking = [&](std::int64_t parts, std::int64_t index) {
          return part.size() - std::max<std::int64_t>(intersect(part, block(a[1], parts, index)).size(), 0);
        };
        most = std::max(most, block(a[0], rows, p).size() * lacking(columns, q) +
                                  block(b[1], columns, q).size() * lacking(rows, p));
      }
  return most;
}

/// The product of the shards of two matrices. `a` is sharded by rows over RowAxis and by columns over ColAxis, `b` and
/// the result likewise. Each layer computes the products of its part of the inner dim. `Bytes` bounds the workspace,
/// and an element has `Size` bytes.
template <std::int64_t Bytes, std::int64_t Size, MeshAxis RowAxis, MeshAxis ColAxis, int RowNumber, int ColNumber,
          class Layers = one_layer>
struct summa_kernel {
  static constexpr std::string_view name = "summa";

  /// The indices of the inner dim in a panel, and the elements that a device keeps of each of them.
  struct panels {
    std::int64_t inner, rows, columns, kept_of_a, kept_of_b, width;
    range part{};
    constexpr panels(const shape& a, const shape& b, std::int64_t over_rows, std::int64_t over_columns,
                     std::int64_t over_layers, std::int64_t bytes)
        : inner(a[1]), rows(over_rows), columns(over_columns), kept_of_a(columns > 1 ? block_extent(a[0], rows) : 0),
          kept_of_b(rows > 1 ? block_extent(b[1], columns) : 0),
          width(std::max<std::int64_t>(block_extent(inner, over_layers), 1)) {
      if (const std::int64_t each = (kept_of_a + kept_of_b) * bytes; each > 0)
        width = std::clamp<std::int64_t>(Bytes / each, 1, width);
      // A panel lies in one block of each operand.
      if (columns > 1) width = std::clamp<std::int64_t>(block_extent(inner, columns), 1, width);
      if (rows > 1) width = std::clamp<std::int64_t>(block_extent(inner, rows), 1, width);
    }
    panels(const local_context& here, const shape& a, const shape& b, std::int64_t bytes)
        : panels(a, b, here.size(RowAxis{}), here.size(ColAxis{}), Layers::count(here), bytes) {
      part = Layers::part(here, inner);
    }
    /// Where the panel that begins at an index ends.
    std::int64_t end_of(std::int64_t begin) const {
      std::int64_t end = std::min(begin + width, part.end);
      for (const std::int64_t parts : {columns, rows})
        end = std::min(end, (begin / block_extent(inner, parts) + 1) * block_extent(inner, parts));
      return end;
    }
  };

  static constexpr std::int64_t workspace(std::span<const shape>, std::span<const shape> whole, const axis_sizes& axes,
                                          const coordinates&) {
    const panels p(whole[0], whole[1], axes[RowNumber], axes[ColNumber], Layers::count(axes), Size);
    return p.width * (p.kept_of_a + p.kept_of_b) * Size;
  }
  static constexpr std::int64_t bytes(std::span<const shape>, std::span<const shape> whole, const axis_sizes& axes) {
    return Size * received_for_summa(whole[0], whole[1], axes[RowNumber], axes[ColNumber], Layers::count(axes));
  }
  static constexpr double flops(std::span<const shape> whole, const shard_dims&) {
    return 2 * as_double(whole[0].elements()) * as_double(whole[1][1]);
  }

  void operator()(const local_context& here, std::span<const shard> in, const shard& out) const {
    if (out.element == element::f32) run<float>(here, in[0], in[1], out);
    else run<double>(here, in[0], in[1], out);
  }

 private:
  template <class T>
  using line = Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  template <class T>
  static void run(const local_context& here, const shard& a, const shard& b, const shard& c) {
    // All devices make the communicators, since a layer without a part of the inner dim broadcasts nothing.
    static_cast<void>(here.comm(RowAxis{}));
    static_cast<void>(here.comm(ColAxis{}));
    const panels p(here, a.global, b.global, std::int64_t{sizeof(T)});
    const auto memory = here.workspace<T>();
    T* const kept = memory.data();
    const panel_ref<T> to{static_cast<T*>(c.data), c.local[0], c.local[1], c.local[1]};
    if (p.part.size() <= 0) zero_bytes(c.data, bytes_of<T>(c.local.elements()));
    for (std::int64_t k = p.part.begin; k < p.part.end;) {
      const std::int64_t end = p.end_of(k);
      const panel_ref<const T> left = columns_of<T>(here, a, {k, end}, p, kept),
                               right = rows_of<T>(here, b, {k, end}, p, kept + p.kept_of_a * p.width);
      multiply_panels<T>(left, right, to, k > p.part.begin);
      // Kernels that read the panels must have run before the next ones arrive; broadcasts wait for them.
      k = end;
    }
  }
  /// Columns of a, on all devices of a row of the mesh.
  template <class T>
  static panel_ref<const T> columns_of(const local_context& here, const shard& a, range k, const panels& p, T* kept) {
    const std::int64_t rows = a.local[0], owner = k.begin / block_extent(p.inner, p.columns);
    const bool mine = here.index(ColAxis{}) == owner;
    const panel_ref<const T> own{static_cast<const T*>(a.data) + (mine ? k.begin - a.offset[1] : 0), rows, k.size(),
                                 a.local[1]};
    if (p.columns == 1) return own;
    if (mine) launch("pack panel", rows, pack_columns<T>{own, kept});
    here.broadcast(line<T>(kept, as_size(rows * k.size())), owner, ColAxis{});
    return {kept, rows, k.size(), k.size()};
  }
  /// Rows of b, on all devices of a column of the mesh. They lie together in the shard that has them.
  template <class T>
  static panel_ref<const T> rows_of(const local_context& here, const shard& b, range k, const panels& p, T* kept) {
    const std::int64_t columns = b.local[1], owner = k.begin / block_extent(p.inner, p.rows);
    const bool mine = here.index(RowAxis{}) == owner;
    T* const at = mine ? static_cast<T*>(b.data) + (k.begin - b.offset[0]) * columns : kept;
    if (p.rows > 1) here.broadcast(line<T>(at, as_size(columns * k.size())), owner, RowAxis{});
    return {at, k.size(), columns, columns};
  }
};

template <std::int64_t Bytes, class Layers, class Row, class RowAxis, class Col, class ColAxis, class Inner,
          class Layout>
struct summa_forward {
  constexpr auto operator()(const value& a, const value& b) const {
    recorder& in = *a.in;
    const source where = in.at(a).where;
    constexpr auto on = Layout::on;
    const spec of_a = on(Row{} / RowAxis{}, Inner{} / ColAxis{}), of_b = on(Inner{} / RowAxis{}, Col{} / ColAxis{});
    constexpr int row_number = on.value.find(RowAxis::info.name), col_number = on.value.find(ColAxis::info.name);
    value x = reshard(at(a, where), of_a), y = reshard(at(b, where), of_b);
    const auto multiply = [&]<std::int64_t Size>(std::integral_constant<std::int64_t, Size>) {
      return local_with_spec<summa_kernel<Bytes, Size, RowAxis, ColAxis, row_number, col_number, Layers>>(
          std::array{x, y}, in.at(x).type.element, Layout::of_result(), where);
    };
    if (x.ok() && y.ok()) x = for_size(in.at(x).type.element, multiply);
    return std::pair(y.ok() ? x : y, std::tuple(a, b));
  }
};
template <class Row, class Col>
struct summa_backward {
  template <class Kept>
  constexpr auto operator()(const Kept& kept, const value& cotangent) const {
    const auto& [a, b] = kept;
    if (!cotangent.ok()) return std::tuple(cotangent, cotangent);
    const source where = a.in->at(a).where;
    return std::tuple(value(dot(at(cotangent, where), at(b, where), Col{})),
                      value(dot(at(a, where), at(cotangent, where), Row{})));
  }
};

/// The layout of the result: that of one layer, or the sum over all of them.
template <class Mesh, class Row, class RowAxis, class Col, class ColAxis>
struct in_one_layer {
  static constexpr Mesh on{};
  static constexpr spec of_result() { return on(Row{} / RowAxis{}, Col{} / ColAxis{}); }
};
template <class Mesh, class Row, class RowAxis, class Col, class ColAxis, class LayerAxis>
struct in_layers {
  static constexpr Mesh on{};
  static constexpr spec of_result() { return on(Row{} / RowAxis{}, Col{} / ColAxis{}, unreduced(LayerAxis{})); }
};

template <class Forward, class Row, class Inner, class Col>
constexpr value panel_product(operand a, operand b, std::string_view what) {
  recorder& in = *a.from.in;
  if (!a.from.ok() || !b.from.ok()) return a.from.ok() ? b.from : a.from;
  if (!takes(in.at(a.from).type.element)) return in.fail(fault::no_function_for_element, what, a.where);
  if (in.at(a.from).type.element != in.at(b.from).type.element)
    return in.fail(fault::element_types_differ, what, b.where);
  const value x = as_matrix(a, Row::ref, Inner::ref, what), y = as_matrix(b, Inner::ref, Col::ref, what);
  if (!x.ok() || !y.ok()) return x.ok() ? y : x;
  return custom_vjp(Forward{}, summa_backward<Row, Col>{})(named(at(x, a.where)), named(at(y, b.where)));
}

} // namespace detail

/// The product of two matrices over a mesh of two axes in at most `Bytes` of workspace on each device:
/// `summa<1 << 20>(a, b, inner, mesh(row / y, col / x))` is dot(a, b, inner).
///
/// Shapes: a has `row` and `inner`, b has `inner` and `col`, and the result has `row` and `col`; there are no other
/// dims. A matrix whose dims are in the other order is copied. Elements: float, double. Layouts: a is resharded to (row
/// / y, inner / x), b to (inner / y, col / x), and the result has the given layout. Communication: panels of columns of
/// a are broadcast along x, and panels of rows of b along y, so a device receives the missing parts of its rows of a
/// and of its columns of b. A panel is as wide as the workspace allows, but at least one column and one row, and lies
/// in one block of each operand.
///
/// The gradient is two products (`dot`), which the planner shards. Faults: no_function_for_element,
/// element_types_differ, dim_missing, dim_used_twice, not_a_matrix, and those of `reshard`. Algorithm: SUMMA (van de
/// Geijn and Watts 1997).
template <std::int64_t Bytes, Dim Inner, class Mesh, class Row, class RowAxis, class Col, class ColAxis>
constexpr value summa(operand a, operand b, const Inner&,
                      const sharding<Mesh, nothing_unreduced, sharded_dim<Row, RowAxis>, sharded_dim<Col, ColAxis>>&) {
  using layout = detail::in_one_layer<Mesh, Row, RowAxis, Col, ColAxis>;
  using forward =
      detail::summa_forward<Bytes, detail::one_layer, Row, RowAxis, Col, ColAxis, std::remove_cvref_t<Inner>, layout>;
  return detail::panel_product<forward, Row, std::remove_cvref_t<Inner>, Col>(a, b, "summa");
}
CLEAVE_LIFT_TEMPLATE(summa, std::int64_t Bytes, Bytes)

/// The product of two matrices over a mesh of three axes in at most `Bytes` of workspace on each device, which moves
/// less where there is memory for several copies of the operands:
/// `product_25d<1 << 20>(a, b, inner, mesh(row / y, col / x), z)` is dot(a, b, inner). The devices along z are layers.
/// Each layer has a copy of both operands, and computes the products of its part of the inner dim as `summa` does.
///
/// Shapes, elements, gradient and faults: as for `summa`. Layouts: a is resharded to (row / y, inner / x), b to
/// (inner / y, col / x), both replicated over z; the result has the given layout and is unreduced over z, until the
/// planner reduces it where it is needed. Communication: in each layer, panels of its part are broadcast as by `summa`,
/// so a device receives one part in `size of z` of the bytes that it receives there; then the reduction of the result
/// over z. Algorithm: 2.5D (Solomonik and Demmel 2011).
template <std::int64_t Bytes, Dim Inner, class Mesh, class Row, class RowAxis, class Col, class ColAxis,
          MeshAxis LayerAxis>
constexpr value product_25d(
    operand a, operand b, const Inner&,
    const sharding<Mesh, nothing_unreduced, sharded_dim<Row, RowAxis>, sharded_dim<Col, ColAxis>>&, const LayerAxis&) {
  using axis = std::remove_cvref_t<LayerAxis>;
  using layout = detail::in_layers<Mesh, Row, RowAxis, Col, ColAxis, axis>;
  using forward = detail::summa_forward<Bytes, detail::layers<axis, Mesh::value.find(axis::info.name)>, Row, RowAxis,
                                        Col, ColAxis, std::remove_cvref_t<Inner>, layout>;
  return detail::panel_product<forward, Row, std::remove_cvref_t<Inner>, Col>(a, b, "product_25d");
}
CLEAVE_LIFT_TEMPLATE(product_25d, std::int64_t Bytes, Bytes)

}}} // namespace cleave::v0::linalg
