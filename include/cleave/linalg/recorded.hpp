// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/linalg/strided.hpp>

#include <algorithm>

// Cholesky factors and triangular systems as programs record them: without Kokkos, for the planner, the evaluator and
// the simulator. The kernels are in linalg/kernels.hpp; programs include linalg/linalg.hpp, which is both.

namespace cleave { inline namespace v0 { namespace linalg {

/// Which half of the matrix is read. The other half counts as zero, whatever is stored there.
enum class triangle : std::uint8_t { lower, upper };
/// Whether a system is solved with the matrix or with its transpose.
enum class transpose : bool { no, yes };

namespace detail {

/// The Cholesky factor of the matrices along two dims.
template <class Rows, class Columns>
struct factor_kernel {
  static constexpr std::string_view name = "cholesky";
  /// In linalg/kernels.hpp.
  void operator()(const local_context&, std::span<const shard> in, const shard& out) const;

  static void reference(std::span<const reference_shard> in, const reference_shard& out) {
    const square_matrices m = matrices_of(out, Rows::ref, Columns::ref);
    const std::int64_t r = m.row_step, c = m.column_step, n = m.n;
    for (std::int64_t b = 0, at = 0, unused = 0; b < m.batch.count(); ++b) {
      m.batch.at(b, at, unused);
      const double* a = in[0].data + at;
      double* l = out.data + at;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) l[i * r + j * c] = j > i ? 0 : (a[i * r + j * c] + a[j * r + i * c]) / 2;
      if (!factor_plainly(n, l, r, c)) not_a_number_below(n, l, r, c);
    }
  }
};

/// The solution of the triangular systems of two tensors: the right-hand sides and the matrices.
template <class Rows, class Columns, triangle Which, transpose Transposed>
struct solve_kernel {
  static constexpr std::string_view name = "triangular_solve";
  static constexpr bool lower = Which == triangle::lower, transposed = Transposed == transpose::yes;
  /// In linalg/kernels.hpp.
  void operator()(const local_context&, std::span<const shard> in, const shard& out) const;

  static void reference(std::span<const reference_shard> in, const reference_shard& out) {
    const triangular_systems s = systems_of(in[1], out, Rows::ref, Columns::ref, lower, transposed);
    std::copy_n(in[0].data, out.local.elements(), out.data);
    for (std::int64_t k = 0, x = 0, l = 0; k < s.columns.count(); ++k) {
      s.columns.at(k, x, l);
      substitute(s, in[1].data + l, out.data + x);
    }
  }
};

/// A dim like another, with a name that no user's dim has: where a matrix meets its own transpose.
template <class D>
struct other_dim : dim_tag {
  static constexpr auto letters = [] {
    std::array<char, D::ref.name.size() + 1> all{};
    for (std::size_t i = 0; i < D::ref.name.size(); ++i) all[i] = D::ref.name[i];
    all.back() = '\'';
    return all;
  }();
  static constexpr dim_ref ref{std::string_view(letters.data(), letters.size()), D::ref.extent};
  constexpr operator dim_ref() const { return ref; }
};

constexpr bool takes(element e) { return e == element::f32 || e == element::f64; }
/// Calls f with the size of float or double, on which the price of a kernel depends.
template <class F>
constexpr value for_size(element e, const F& f) {
  if (e == element::f32) return f(std::integral_constant<std::int64_t, sizeof(float)>{});
  return f(std::integral_constant<std::int64_t, sizeof(double)>{});
}
constexpr bool has(const recorder& in, value x, dim_ref d) { return in.at(x).type.has(in.made().find_dim(d.name)); }
/// A value under another name, which carries the line of the call.
constexpr value named(const operand& x) { return x.from.in->alias(op::identity, x.from, x.where); }
constexpr operand at(value x, source where) { return operand(x, where.file, where.line); }

/// Reports the fault of a matrix, if it has one.
constexpr bool square(const operand& a, dim_ref rows, dim_ref columns, std::string_view what) {
  recorder& in = *a.from.in;
  if (!a.from.ok()) return false;
  if (!takes(in.at(a.from).type.element)) return in.fail(fault::no_function_for_element, what, a.where).ok();
  if (rows.name == columns.name) return in.fail(fault::dim_used_twice, what, a.where, rows.name).ok();
  for (const dim_ref& d : {rows, columns})
    if (!has(in, a.from, d)) return in.fail(fault::dim_missing, what, a.where, d.name).ok();
  return in.same_extent(columns, rows, what, a.where);
}

/// An operand that is one matrix with these dims, in this order. Reports its fault, if it has one.
constexpr value as_matrix(const operand& x, dim_ref rows, dim_ref columns, std::string_view what) {
  recorder& in = *x.from.in;
  if (!x.from.ok()) return x.from;
  if (rows.name == columns.name) return in.fail(fault::dim_used_twice, what, x.where, rows.name);
  const tensor_type has = in.at(x.from).type;
  tensor_type wanted;
  wanted.element = has.element;
  for (const dim_ref& d : {rows, columns}) {
    const int known = in.made().find_dim(d.name);
    if (!has.has(known)) return in.fail(fault::dim_missing, what, x.where, d.name);
    if (!in.made().dims[known].blocks.empty()) return in.fail(fault::blocks_not_equal, what, x.where, d.name);
    wanted.append(known);
  }
  for (int i = 0; i < has.rank; ++i)
    if (!wanted.has(has[i])) return in.fail(fault::not_a_matrix, what, x.where, in.made().dims[has[i]].name);
  return has[0] == wanted[0] ? x.from : in.reordered(x.from, wanted, x.where);
}

/// x on and below the diagonal (above it: on and above), 0 elsewhere; the diagonal times a factor.
constexpr value half_of(value x, dim_ref rows, dim_ref columns, bool lower, double diagonal, source where) {
  recorder& in = *x.in;
  if (!x.ok()) return x;
  const value row = in.iota(rows, element::i32, where), column = in.iota(columns, element::i32, where);
  const auto compared = [&](op code) {
    return in.elementwise(code, std::array{row, column}, where, element::boolean, true);
  };
  const value strictly = compared(lower ? op::greater : op::less);
  const value on = diagonal == 1 ? x
                                 : select(at(strictly, where), at(x, where),
                                          at(at(x, where) * operand(diagonal, where.file, where.line), where));
  return select(at(compared(lower ? op::greater_equal : op::less_equal), where), at(on, where),
                operand(0.0, where.file, where.line));
}

template <class Rows, class Columns, triangle Which, transpose Transposed>
constexpr value solved(value l, value b);

/// The type of a right-hand side with the dim that is solved for in place of the one that is given.
constexpr tensor_type solution_type(const recorder& in, value b, dim_ref given, dim_ref wanted) {
  tensor_type t = in.at(b).type;
  t[t.find(in.made().find_dim(given.name))] = known_dim(in.made().find_dim(wanted.name));
  return t;
}

template <class Rows, class Columns, triangle Which, transpose Transposed>
struct solve_forward {
  constexpr auto operator()(const value& l, const value& b) const {
    value x = l.ok() ? b : l;
    if (x.ok()) {
      recorder& in = *b.in;
      const dim_ref given = Transposed == transpose::no ? Rows::ref : Columns::ref,
                    wanted = Transposed == transpose::no ? Columns::ref : Rows::ref;
      x = call_with_type<solve_kernel<Rows, Columns, Which, Transposed>>(std::array{b, l},
                                                                         std::array{Rows::ref, Columns::ref},
                                                                         solution_type(in, b, given, wanted),
                                                                         in.at(l).where);
    }
    return std::pair(x, std::tuple(l, x));
  }
};
template <class Rows, class Columns, triangle Which, transpose Transposed>
struct solve_backward {
  template <class Kept>
  constexpr auto operator()(const Kept& kept, const value& cotangent) const {
    const auto& [l, x] = kept;
    if (!cotangent.ok()) return std::tuple(cotangent, cotangent);
    const value by_b =
        solved<Rows, Columns, Which, Transposed == transpose::no ? transpose::yes : transpose::no>(l, cotangent);
    if (!by_b.ok()) return std::tuple(by_b, by_b);
    recorder& in = *l.in;
    const source where = in.at(l).where;
    // Whatever the matrix has not is one more right-hand side, but for the dims that were solved for.
    dim_set over = in.at(by_b).type.set() & ~in.at(l).type.set();
    const value product = in.dot(by_b, x, over, where);
    const value by_l = half_of(-at(product, where), Rows::ref, Columns::ref, Which == triangle::lower, 1, where);
    return std::tuple(by_l, by_b);
  }
};
template <class Rows, class Columns, triangle Which, transpose Transposed>
constexpr value solved(value l, value b) {
  return custom_vjp(solve_forward<Rows, Columns, Which, Transposed>{},
                    solve_backward<Rows, Columns, Which, Transposed>{})(l, b);
}

template <class Rows, class Columns>
struct factor_forward {
  constexpr auto operator()(const value& a) const {
    value l = a;
    if (a.ok())
      l = call_with_type<factor_kernel<Rows, Columns>>(std::array{a}, std::array{Rows::ref, Columns::ref},
                                                       a.in->at(a).type, a.in->at(a).where);
    return std::pair(l, std::tuple(l));
  }
};
/// Murray 2016, section 3.3: with P the lower half of L^T gL, its diagonal halved, and S = L^-T P L^-1, the cotangent
/// of a symmetric matrix is (S + S^T) / 2. Products of L with its own transpose need two more names.
template <class Rows, class Columns>
struct factor_backward {
  template <class Kept>
  constexpr auto operator()(const Kept& kept, const value& cotangent) const {
    using other_rows = other_dim<Rows>;
    using other_columns = other_dim<Columns>;
    const value l = std::get<0>(kept);
    if (!l.ok() || !cotangent.ok()) return l;
    recorder& in = *l.in;
    const source where = in.at(l).where;
    const dim_ref r = Rows::ref, c = Columns::ref, p = other_columns::ref, q = other_rows::ref;
    const auto renamed = [&](value x, dim_ref from, dim_ref to) { return rename(at(x, where), from, to); };
    const value product = dot(at(l, where), at(renamed(cotangent, c, p), where), r);
    const value halved = half_of(product, c, p, true, 0.5, where);
    const value left = solved<Rows, Columns, triangle::lower, transpose::yes>(l, halved);
    const value again = renamed(renamed(l, c, p), r, q);
    const value s = solved<other_rows, other_columns, triangle::lower, transpose::yes>(again, left);
    const value plain = renamed(s, q, c), turned = renamed(renamed(s, r, c), q, r);
    return value(at(at(plain, where) + at(turned, where), where) * operand(0.5, where.file, where.line));
  }
};

} // namespace detail

/// The lower Cholesky factor L of symmetric positive definite matrices, zero above the diagonal: the sum over columns
/// of L(rows, columns) L(rows', columns) is a.
///
/// Shapes: a has `rows` and `columns`, of one extent, and any other dims, which are batch dims; the result has the dims
/// of a. Elements: float, double. Layouts and communication: the planner shards the batch dims in any way, without
/// communication; sharded rows and columns are gathered.
///
/// The mean of a and its transpose is factored, as in JAX, and the cotangent of a is symmetric. A matrix that is not
/// positive definite gives NaN on and below the diagonal. Faults: no_function_for_element, dim_missing, dim_used_twice,
/// extents_differ; shape_error if run-time extents differ. Algorithm: blocked, right-looking (Golub and Van Loan,
/// 4.2.9); derivative: Murray 2016, "Differentiation of the Cholesky decomposition".
template <Dim Rows, Dim Columns>
constexpr value cholesky(operand a, const Rows& rows, const Columns& columns) {
  if (!detail::square(a, rows, columns, "cholesky")) return {a.from.in, no_node};
  return custom_vjp(detail::factor_forward<Rows, Columns>{},
                    detail::factor_backward<Rows, Columns>{})(detail::named(a));
}
CLEAVE_LIFT(cholesky)

/// The solution x of triangular systems: dot(l, x, columns) is b; with transpose::yes, dot(l, x, rows) is b.
///
/// Shapes: l has `rows` and `columns`, of one extent. b has `rows`, and in its position the result has `columns`
/// (transposed: the other way round). Other dims of b are batch dims if l has them too, otherwise right-hand sides.
/// Batch dims that only l has are added to b. Elements: float, double, the same in both. Layouts and communication: the
/// planner shards all other dims in any way, without communication; sharded rows and columns are gathered.
///
/// A zero on the diagonal gives the results of a division by zero. Faults: no_function_for_element,
/// element_types_differ, dim_missing, dim_used_twice, extents_differ; shape_error if run-time extents differ.
/// Algorithm: substitution; trsm of BLAS on the host.
template <triangle Which = triangle::lower, transpose Transposed = transpose::no, Dim Rows, Dim Columns>
constexpr value triangular_solve(operand l, operand b, const Rows& rows, const Columns& columns) {
  constexpr std::string_view what = "triangular_solve";
  recorder& in = *l.from.in;
  const value none{&in, no_node};
  if (!detail::square(l, rows, columns, what) || !b.from.ok()) return none;
  const dim_ref given = Transposed == transpose::no ? Rows::ref : Columns::ref,
                wanted = Transposed == transpose::no ? Columns::ref : Rows::ref;
  if (in.at(b.from).type.element != in.at(l.from).type.element)
    return in.fail(fault::element_types_differ, what, l.where);
  if (!detail::has(in, b.from, given)) return in.fail(fault::dim_missing, what, b.where, given.name);
  if (detail::has(in, b.from, wanted)) return in.fail(fault::dim_used_twice, what, b.where, wanted.name);
  tensor_type all;
  const tensor_type &matrix = in.at(l.from).type, &right = in.at(b.from).type;
  all.element = right.element;
  for (int i = 0; i < matrix.rank; ++i)
    if (const dim_ref d{in.made().dims[matrix[i]].name}; d.name != wanted.name && !right.has(matrix[i])) {
      if (all.rank + right.rank >= max_rank) return in.fail(fault::rank_too_high, what, b.where);
      all.append(matrix[i]);
    }
  for (int i = 0; i < right.rank; ++i) all.append(right[i]);
  const value wide = in.broadcast(b.from, all, b.where);
  return detail::solved<Rows, Columns, Which, Transposed>(detail::named(l),
                                                          detail::named(operand(wide, b.where.file, b.where.line)));
}
CLEAVE_LIFT_TEMPLATE(triangular_solve, auto... How, How...)

}}} // namespace cleave::v0::linalg
