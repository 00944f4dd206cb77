// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/sparse/kernels.hpp>
#include <cleave/tensor/tensor.hpp>

// A sparse matrix is an aggregate of tensors, as a struct of weights is. So it is an argument of functions like any
// other, loops and solvers may capture it, and a plan knows its sizes.

namespace cleave { inline namespace v0 { namespace sparse {

/// Which kernel multiplies the rows of a matrix, the last argument of `csr`: Cleave's own, which adds up a row in the
/// order of its columns. So a product has the same bits on any number of devices.
struct in_order {
  template <class T, class Rows, class Columns>
  using kernel = detail::rows_kernel<T, Rows, Columns>;
};

/// The name of a matrix that needs none.
struct unnamed {
  static constexpr dim_ref ref{};
};

namespace detail {

/// The function that `a(x)` records, for statements.
template <class Matrix>
constexpr value times(const Matrix& a, operand x) {
  return a(x.from);
}
CLEAVE_LIFT(times)

/// The name of a dim that a matrix makes for itself: a word, the names of its own dims, and the name of the matrix.
template <text Word, class Rows, class Columns, class Name>
struct dim_name {
  static constexpr std::string_view rows = Rows::ref.name, columns = Columns::ref.name,
                                    space = Name::ref.name.empty() ? "" : " ";
  static constexpr std::size_t length = Word.view().size() + rows.size() + columns.size() + Name::ref.name.size() +
                                        space.size() + 2;
  static constexpr text<length + 1> made = [] {
    char letters[length + 1]{};
    std::size_t at = 0;
    for (const std::string_view part :
         {Word.view(), std::string_view(" "), rows, std::string_view(","), columns, space, Name::ref.name})
      for (const char c : part) letters[at++] = c;
    return text<length + 1>(letters);
  }();
  using type = dim<made>;
};

/// The types of the tensors of a matrix.
template <class Mesh, class Rows, class Axis, class Columns, class By, class Name>
struct names {
  using by = By;
  using rows = Rows;
  using columns = Columns;
  using axis = Axis;
  using mesh_type = Mesh;
  using part = typename dim_name<"part", Rows, Columns, Name>::type;
  using entry = typename dim_name<"entry", Rows, Columns, Name>::type;
  using sent = typename dim_name<"sent", Rows, Columns, Name>::type;
  using halo = typename dim_name<"halo", Rows, Columns, Name>::type;
  using peer = typename dim_name<"peer", Rows, Columns, Name>::type;
  using peer_and_all = typename dim_name<"count", Rows, Columns, Name>::type;
  template <class T, class Along>
  using per_device = tensor<T, Mesh{}(part{} / Axis{}, Along{})>;

  /// One dim of which each device has a part, and others.
  static constexpr spec layout_of(dim_ref divided) {
    spec s;
    s.mesh = Mesh::value;
    placement p(divided);
    p.axes.push_back(Axis::info.name);
    s.dims.push_back(p);
    return s;
  }
};

/// The types in a layout, and in the columns divided by its axis. nvcc cannot write the type that `decltype` gives of a
/// template argument, but types that are deduced from the arguments of that type.
template <class Sharding, class Columns, class By, class Name>
struct names_of;
template <class Mesh, class Unreduced, class Rows, class Axis, class Columns, class By, class Name>
struct names_of<sharding<Mesh, Unreduced, sharded_dim<Rows, Axis>>, sharded_dim<Columns, Axis>, By, Name> {
  using type = names<Mesh, Rows, Axis, Columns, By, Name>;
};
template <class Mesh, class Unreduced, class Rows, class Axis>
constexpr Axis axis_of(sharding<Mesh, Unreduced, sharded_dim<Rows, Axis>>) {
  return {};
}

/// The steps of a product, recorded.
template <class T, class Names>
struct product {
  using rows = typename Names::rows;
  using columns = typename Names::columns;

  recorder& in;
  source where;

  constexpr value placed(const value& x, const spec& s) const { return reshard(operand(x, where.file, where.line), s); }
  /// A tensor that is one row for each device.
  template <class Along>
  constexpr value per_device(const value& x) const {
    spec s = Names::layout_of(Names::part::ref);
    s.dims.push_back(placement(Along::ref));
    return placed(x, s);
  }
  /// The layout of a vector, whose sharded dim is another in the result.
  constexpr spec layout_like(const tensor_type& t, dim_ref along) const {
    const int old = in.made().find_dim(columns::ref.name);
    spec s = Names::layout_of(along), all = s;
    all.dims = {};
    for (int i = 0; i < t.rank; ++i) {
      if (t[i] == old) all.dims.push_back(s.dims[0]);
      else all.dims.push_back(placement(in.made().dims[t[i]].ref()));
    }
    return all;
  }
  /// One row for each device of elements of all vectors.
  constexpr spec elements_like(const tensor_type& t, dim_ref elements) const {
    const int old = in.made().find_dim(columns::ref.name);
    spec s = Names::layout_of(Names::part::ref);
    s.dims.push_back(placement(elements));
    for (int i = 0; i < t.rank; ++i)
      if (t[i] != old) s.dims.push_back(placement(in.made().dims[t[i]].ref()));
    return s;
  }

  template <class Matrix>
  constexpr value of(const Matrix& a, const value& given) const {
    const tensor_type t = in.at(given).type;
    if (t.element != element_of<T>) return in.fail(fault::element_types_differ, "multiply", where);
    if (!t.has(in.made().find_dim(columns::ref.name)))
      return in.fail(fault::dim_missing, "multiply", where, columns::ref.name);
    if (t.rank >= max_rank) return in.fail(fault::rank_too_high, "multiply", where);
    const value x = placed(given, layout_like(t, columns::ref));
    const value counts = per_device<typename Names::peer_and_all>(a.send_counts);
    const value packed =
        local_with_spec<pack_kernel<T, columns>>(std::array{per_device<typename Names::sent>(a.sent), counts, x},
                                                 element_of<T>, elements_like(t, Names::sent::ref), where);
    if (!packed.ok()) return packed;
    const value arrived = local_with_spec<exchange_kernel<T, typename Names::axis>>(
        std::array{counts, per_device<typename Names::peer>(a.receive_counts), per_device<typename Names::halo>(a.halo),
                   placed(packed, elements_like(t, Names::sent::ref))},
        element_of<T>, elements_like(t, Names::halo::ref), where);
    if (!arrived.ok()) return arrived;
    return local_with_spec<typename Names::by::template kernel<T, rows, columns>>(
        std::array{placed(a.ends, Names::layout_of(rows::ref)), per_device<typename Names::entry>(a.columns),
                   per_device<typename Names::entry>(a.values), x, placed(arrived, elements_like(t, Names::halo::ref))},
        element_of<T>, layout_like(t, rows::ref), where);
  }
};

} // namespace detail

/// A sparse matrix in compressed rows, sharded by rows over one axis: the type `csr<...>`. It is an aggregate of
/// tensors: pass it to functions, and capture it in the operator of a solver. `assemble` and `read_matrix_market` make
/// it. Copies have tensors of their own. The tensors with `part` in their dims have one row for each device.
template <class Names, class Values, class Columns, class Ends, class Sent, class Counts, class Halo, class Others>
struct matrix {
  /// Where the entries of each row end, among those of its device.
  Ends ends;
  /// The entries by rows and columns: the own columns of a device from 0 on, then those of other devices. Each device
  /// has room for those of the device with most entries.
  Columns columns;
  Values values;
  /// The halo of a vector: the global columns that a device reads of others, in order, and how many of each device.
  Halo halo;
  Others receive_counts;
  /// Which elements a device sends, by device; how many to each; and last the number of columns of the matrix.
  Sent sent;
  Counts send_counts;

  /// Inside a function: the product with x, as `multiply`. If x has the dim of the rows in place of that of the
  /// columns, so has the result: a square matrix is an operator of solvers.
  constexpr value operator()(const value& x) const
    requires std::derived_from<Values, value>
  {
    if (!x.ok()) return x;
    const recorder& in = *x.in;
    const source where = in.at(x).where;
    const auto times = [&](const value& v) { return multiply(*this, operand(v, where.file, where.line)); };
    const bool square = !in.at(x).type.has(in.made().find_dim(Names::columns::ref.name));
    if (square && in.at(x).type.has(in.made().find_dim(Names::rows::ref.name)))
      return times(rename(x, Names::rows::ref, Names::columns::ref));
    return times(x);
  }
  /// The same as a statement: `y = a(x)`.
  template <Statement X>
    requires(!std::derived_from<Values, value>)
  constexpr auto operator()(const X& x) const {
    return detail::times(*this, x);
  }
};

namespace detail {
template <class T, auto Rows, auto Columns, class By, class Name>
struct csr_of {
  using made_of =
      typename names_of<std::remove_cvref_t<decltype(Rows)>, decltype(Columns / axis_of(Rows)), By, Name>::type;
  using type =
      matrix<made_of, typename made_of::template per_device<T, typename made_of::entry>,
             typename made_of::template per_device<std::int32_t, typename made_of::entry>,
             tensor<std::int64_t, typename made_of::mesh_type{}(typename made_of::rows{} / typename made_of::axis{})>,
             typename made_of::template per_device<std::int32_t, typename made_of::sent>,
             typename made_of::template per_device<std::int64_t, typename made_of::peer_and_all>,
             typename made_of::template per_device<std::int64_t, typename made_of::halo>,
             typename made_of::template per_device<std::int64_t, typename made_of::peer>>;
};
} // namespace detail

/// The type of a sparse matrix of numbers of type T, float or double: `csr<double, mesh(row / ranks), col>`. The rows
/// are sharded over one axis; over other axes of the mesh the matrix is replicated. A vector of the columns is sharded
/// over the same axis. `By` says which kernel multiplies the rows of a device. Several matrices in one function, which
/// have the same dims and as a rule other numbers of entries, have a `Name` each, which is that of a dim:
/// `csr<double, mesh(row / ranks), col, sparse::in_order, dim<"preconditioner">>`. Rows and columns may be in given
/// blocks; if they share a table, a square matrix multiplies vectors of its rows without moving them first.
template <class T, auto Rows, auto Columns, class By = in_order, class Name = unnamed>
using csr = typename detail::csr_of<T, Rows, Columns, By, Name>::type;

/// The product of a sparse matrix with x, which has the dim of the columns, and any others: each
/// index of those is one more vector. In the result the dim of the rows has its position. Unless the type of the matrix
/// says otherwise, its sum over the entries of a row is in the order of the columns, so it does not depend on the
/// number of devices.
///
/// Layout: x and the result are sharded over the axis of the matrix and not over others. Communication: each device
/// receives the elements of other devices that its rows read, each once; it was computed from the columns when the
/// matrix was assembled. There is no derivative. Faults: dim_missing, element_types_differ, rank_too_high; shape_error
/// if x has another extent than the matrix has columns.
template <class Names, class Values, class... Fields>
  requires std::derived_from<Values, value>
constexpr value multiply(const matrix<Names, Values, Fields...>& a, operand x) {
  if (!x.from.ok()) return x.from;
  return detail::product<typename Values::element_type, Names>{*x.from.in, x.where}.of(a, x.from);
}
/// The same as a statement: `y = multiply(a, x)`.
CLEAVE_LIFT(multiply)

}}} // namespace cleave::v0::sparse
