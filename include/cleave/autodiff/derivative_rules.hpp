// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/autodiff/remap_derivative.hpp>
#include <cleave/record/op_builder.hpp>
#include <cleave/record/recorded_rows.hpp>
#include <cleave/record/recorded_sort.hpp>
#include <cleave/record/recorded_views.hpp>
#include <cleave/record/reverse_context.hpp>

#include <limits>

// What a cotangent of the result of one operation gives to its operands: a rule for each class, and formulas for
// elementwise ops.

namespace cleave::detail {

/// A cotangent without some dims, along which it is constant, for an operand that does not have them: as often as they
/// have indices.
constexpr value times_count(reverse_context& c, value g, dim_set dims, source where) {
  const value count = c.in().count(dims, c.type_of(g).element, where);
  return c.in().elementwise(op::mul, std::array{g, count}, where);
}

/// A formula of an op's entry, recorded for node v.
constexpr value recorded_formula(reverse_context& c, const formula& f, std::size_t v, const node& n, value g) {
  const op_builder apply(c.in(), n.where);
  std::vector<value> made;
  for (const formula::term& t : f.terms) {
    if (t.code == op::constant) {
      made.push_back(apply.number(t.number, n.type.element));
    } else if (t.code == op::input) {
      made.push_back(t.in[0] == 4 ? g : t.in[0] == 3 ? c.primal(v) : c.primal(n.in[static_cast<std::size_t>(t.in[0])]));
    } else {
      std::array<value, 3> args{};
      std::size_t arity = 0;
      while (arity < 3 && t.in[arity] >= 0) {
        args[arity] = made[static_cast<std::size_t>(t.in[arity])];
        ++arity;
      }
      made.push_back(c.in().elementwise(t.code, std::span<const value>(args.data(), arity), n.where, element::none, true));
    }
  }
  return made.back();
}

/// Elementwise: the formula of each operand. An operand that was broadcast takes the sum over the dims that it does not
/// have.
constexpr void adjoint_of_elementwise(reverse_context& c, std::size_t v, const node& n, value g) {
  for (std::size_t k = 0; k < n.arity; ++k) {
    const std::size_t u = n.in[k];
    const formula& f = n.user != nullptr ? n.user->derivative[k] : entry_of(n.code).derivative[k];
    if (!c.depends(u)) continue;
    if (n.user != nullptr && !n.user->differentiable) c.refuse_derivative(n);
    if (f.empty()) continue;
    value part = recorded_formula(c, f, v, n, g);
    if (!part.ok()) continue;
    const tensor_type to = c.node_at(u).type;
    if (c.type_of(part).element != to.element) part = op_builder(c.in(), n.where).cast(part, to.element);
    const dim_set broadcast = n.type.set() & ~to.set(), has = c.type_of(part).set();
    if ((broadcast & has) != 0) part = c.in().reduce(reduction::sum, part, broadcast & has, n.where);
    if ((broadcast & ~has) != 0) part = times_count(c, part, broadcast & ~has, n.where);
    c.add(u, part, n.where);
  }
}

/// Contraction: for each operand a product of the cotangent and the other operand.
constexpr void adjoint_of_contraction(reverse_context& c, std::size_t, const node& n, value g) {
  const std::array<value, 2> operands{c.primal(n.in[0]), c.primal(n.in[1])};
  for (std::size_t k = 0; k < 2; ++k) {
    if (!c.depends(n.in[k])) continue;
    value other = operands[1 - k];
    const dim_set own = c.type_of(operands[k]).set(), has = c.type_of(g).set();
    // Along dims that only the other operand has and the cotangent lacks, the other is summed.
    const dim_set summed = c.type_of(other).set() & ~own & ~has;
    if (summed != 0) other = c.in().reduce(reduction::sum, other, summed, n.where);
    const dim_set over = c.type_of(other).set() & has & ~own;
    c.add(n.in[k], k == 0 ? c.in().dot(g, other, over, n.where) : c.in().dot(other, g, over, n.where), n.where);
  }
}

/// Reduction: a sum gives its cotangent to every element, an extremum to those that attain it, a product times the
/// others.
constexpr void adjoint_of_reduction(reverse_context& c, std::size_t v, const node& n, value g) {
  const value x = c.primal(n.in[0]), r = c.primal(v);
  const element e = n.type.element;
  const op_builder apply(c.in(), n.where);
  const auto summed = [&](value y) { return c.in().reduce(reduction::sum, y, n.over, n.where); };
  switch (n.combine) {
    case reduction::sum: return c.add(n.in[0], g, n.where);
    case reduction::max:
    case reduction::min: {
      // All that attain the extremum share equally.
      const value hit = apply(op::equal, x, r);
      const value share = apply(op::div, g, summed(apply.cast(hit, e)));
      return c.add(n.in[0], apply(op::select, hit, share, apply.number(0, e)), n.where);
    }
    case reduction::prod: {
      // The product of the others, by division where nothing is zero.
      const value zero = apply(op::equal, x, apply.number(0, e));
      const value zeros = summed(apply.cast(zero, e));
      const value rest = c.in().reduce(reduction::prod, apply(op::select, zero, apply.number(1, e), x), n.over, n.where);
      const value only = apply(op::select, apply(op::equal, zeros, apply.number(1, e)), rest, apply.number(0, e));
      const value slope = apply(op::select, zero, only, apply(op::div, r, apply(op::select, zero, apply.number(1, e), x)));
      return c.add(n.in[0], apply(op::mul, g, slope), n.where);
    }
  }
}

constexpr void adjoint_of_remap(reverse_context& c, std::size_t, const node& n, value g) {
  std::vector<value> operands;
  for (std::size_t k = 0; k < n.arity; ++k) operands.push_back(c.primal(n.in[k]));
  for (std::uint8_t k = 0; k < n.arity; ++k)
    if (c.depends(n.in[k])) c.add(n.in[k], remap_adjoint(c.in(), n, g, operands).by(k), n.where);
}

/// A look-up adds its cotangent up in the rows of the table.
constexpr void adjoint_of_gather(reverse_context& c, std::size_t, const node& n, value g) {
  if (!c.depends(n.in[0])) return;
  const value indices = c.primal(n.in[1]);
  const tensor_type table = c.node_at(n.in[0]).type;
  g = c.in().broadcast(g, n.type, n.where);
  c.add(n.in[0], recorded_scatter(c.in(), g, c.dim_at(n.which[0]), indices, table, n.where), n.where);
}
/// Rows that were added up take the cotangent of the row at their index.
constexpr void adjoint_of_scatter(reverse_context& c, std::size_t, const node& n, value g) {
  if (!c.depends(n.in[0])) return;
  g = c.in().broadcast(g, n.type, n.where);
  const value indices = c.primal(n.in[1]);
  c.add(n.in[0], recorded_gather(c.in(), g, c.dim_at(n.which[0]), indices, n.where), n.where);
}

/// Cotangents of a slice go to the indices that another slice names.
constexpr void add_at_indices(reverse_context& c, const node& n, value g, value indices, dim_ref along) {
  const dim_ref ranks = ranks_along(n.which[0], along.extent);
  const tensor_type whole = c.node_at(n.in[0]).type; // a copy: recording moves the nodes
  g = recorded_rename(c.in(), c.in().broadcast(g, n.type, n.where), along, ranks, n.where);
  indices = recorded_rename(c.in(), indices, along, ranks, n.where);
  c.add(n.in[0], recorded_scatter(c.in(), g, along, indices, whole, n.where), n.where);
}

/// A running sum gives each cotangent to all elements before it: the running sum from the other end. So does a product,
/// times the others; a maximum gives it to the element that it is.
constexpr void adjoint_of_cumulative(reverse_context& c, std::size_t v, const node& n, value g) {
  if (!c.depends(n.in[0])) return;
  if (!c.type_of(g).has(n.which[0])) g = c.in().broadcast(g, n.type, n.where);
  const dim_ref along = c.dim_at(n.which[0]);
  const auto run = [&](reduction how, value y, bool backwards, bool exclusive) {
    return recorded_cumulative(c.in(), how, y, along, backwards, exclusive, n.where);
  };
  const auto before = [&](value y) { return run(reduction::sum, y, !n.backwards, n.exclusive); };
  if (n.combine == reduction::sum) return c.add(n.in[0], before(g), n.where);
  const value x = c.primal(n.in[0]), r = c.primal(v);
  const element e = n.type.element;
  const op_builder apply(c.in(), n.where);
  if (n.combine == reduction::prod) {
    // By division where nothing is zero; the first zero takes the product of the others.
    const value zero = apply(op::equal, x, apply.number(0, e));
    const value zeros = run(reduction::sum, apply.cast(zero, element::i32), n.backwards, false);
    const value first = apply(op::logical_and, zero, apply(op::equal, zeros, apply.number(1, element::i32)));
    const value others = run(reduction::prod, apply(op::select, first, apply.number(1, e), x), n.backwards, n.exclusive);
    const value by_division = apply(op::div, before(apply(op::mul, g, r)), apply(op::select, zero, apply.number(1, e), x));
    const value rest = apply(op::select, zero, apply.number(0, e), by_division);
    return c.add(n.in[0], apply(op::select, first, before(apply(op::mul, g, others)), rest), n.where);
  }
  // Where the extremum was attained last, in the order of the run.
  const value reached = n.exclusive ? run(n.combine, x, n.backwards, false) : r;
  const double none = n.backwards ? std::numeric_limits<std::int32_t>::max() : -1;
  const value index = c.in().iota(along, element::i32, n.where);
  const value attained = apply(op::select, apply(op::equal, x, reached), index, apply.number(none, element::i32));
  const value last = run(n.backwards ? reduction::min : reduction::max, attained, n.backwards, n.exclusive);
  add_at_indices(c, n, g, last, along);
}

/// A cotangent of each element of a slice in order goes to where the element was; indices have none.
constexpr void adjoint_of_sort(reverse_context& c, std::size_t, const node& n, value g) {
  if (!c.depends(n.in[0]) || n.code == op::argsort) return;
  const dim_ref along = c.dim_at(n.which[0]);
  add_at_indices(c, n, g, recorded_sort(c.in(), op::argsort, c.primal(n.in[0]), along, n.backwards, n.where), along);
}

/// A user's kernel has no derivative but that of a region around it.
constexpr void adjoint_of_call(reverse_context& c, std::size_t, const node& n, value) {
  for (std::size_t k = 0; k < n.arity; ++k)
    if (c.depends(n.in[k])) c.refuse_derivative(n);
}

/// The same elements back under the operand's dims.
constexpr value viewed_back(reverse_context& c, const node& n, value g) {
  recorder& in = c.in();
  const auto has = [&](int k) { return c.type_of(g).has(n.which[static_cast<std::size_t>(k)]); };
  const dim_ref first = c.dim_at(n.which[0]), second = c.dim_at(n.which[1]);
  if (n.code == op::rename) return has(1) ? recorded_rename(in, g, second, first, n.where) : g;
  const dim_ref third = c.dim_at(n.which[2]);
  if (n.code == op::merge) return has(2) ? recorded_split(in, g, third, first, second, n.where) : g;
  if (!has(1) && !has(2)) return g;
  if (!has(1) || !has(2)) g = in.broadcast(g, n.type, n.where);
  return recorded_merge(in, g, second, third, first, n.where);
}
constexpr void adjoint_of_view(reverse_context& c, std::size_t, const node& n, value g) {
  c.add(n.in[0], viewed_back(c, n, g), n.where);
}

/// A cotangent has the layout that the user wrote for the value.
constexpr void adjoint_of_annotation(reverse_context& c, std::size_t, const node& n, value g) {
  if (n.code == op::stop_gradient) return;
  c.add(n.in[0], n.code == op::constrain ? c.in().constrain_like(g, n) : g, n.where);
}

constexpr void record_adjoint(reverse_context& c, std::size_t v, const node& n) {
  const value g = c.cotangent(v);
  switch (class_of(n.code)) {
    case op_class::elementwise: return adjoint_of_elementwise(c, v, n, g);
    case op_class::contraction: return adjoint_of_contraction(c, v, n, g);
    case op_class::reduction: return adjoint_of_reduction(c, v, n, g);
    case op_class::remap: return adjoint_of_remap(c, v, n, g);
    case op_class::gather: return adjoint_of_gather(c, v, n, g);
    case op_class::scatter: return adjoint_of_scatter(c, v, n, g);
    case op_class::cumulative: return adjoint_of_cumulative(c, v, n, g);
    case op_class::sort: return adjoint_of_sort(c, v, n, g);
    case op_class::call: return adjoint_of_call(c, v, n, g);
    case op_class::view: return adjoint_of_view(c, v, n, g);
    case op_class::annotation: return adjoint_of_annotation(c, v, n, g);
    case op_class::source:
    case op_class::loop: break;
  }
}

} // namespace cleave::detail
