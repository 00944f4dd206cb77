// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/record/op_builder.hpp>
#include <cleave/rules/reverse_context.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// A cotangent without some dims, along which it is constant, for an operand that does not have them: as often as they
/// have indices.
constexpr value times_count(reverse_context& c, value g, dim_set dims, source where) {
  const value count = c.in().count(dims, c.type_of(g).element, where);
  return c.in().elementwise(op::mul, std::array{g, count}, where);
}

/// A formula of an op's entry, recorded for node v.
constexpr value recorded_formula(reverse_context& c, const formula& f, std::size_t v, const node& n, value g) {
  const op_builder apply(c.in(), n.where);
  indexed_vector<value> made;
  for (const formula::term& t : f.terms) {
    if (t.code == op::constant) {
      made.push_back(apply.number(t.number, n.type.element));
    } else if (t.code == op::input) {
      made.push_back(t.in[0] == 4 ? g : t.in[0] == 3 ? c.primal(v) : c.primal(n.in[t.in[0]]));
    } else {
      std::array<value, 3> args{};
      std::size_t arity = 0;
      while (arity < 3 && t.in[arity] >= 0) {
        args[arity] = made[as_size(t.in[arity])];
        ++arity;
      }
      made.push_back(c.in().elementwise(t.code, indexed_span<const value>(args.data(), arity), n.where, element::none,
                                        true, t.code == op::user ? &t.function() : nullptr));
    }
  }
  return made.back();
}

/// Elementwise: the formula of each operand. An operand that was broadcast takes the sum over the dims that it does not
/// have.
constexpr void adjoint_of_elementwise(reverse_context& c, std::size_t v, const node& n, value g) {
  for (std::size_t k = 0; k < n.arity; ++k) {
    const std::size_t u = n.in[k];
    const formula& f = is_of_user(n.code) ? n.user->derivative[k] : entry_of(n.code).derivative[k];
    if (!c.depends(u)) continue;
    if (is_of_user(n.code) && !n.user->differentiable) c.refuse_derivative(n);
    if (f.empty()) continue;
    value part = recorded_formula(c, f, v, n, g);
    if (!part.ok()) continue;
    const op_builder apply(c.in(), n.where);
    if (n.scalar == is_length) {
      const value none = apply.number(0, n.type.element);
      part = apply(op::select, apply(op::equal, c.primal(v), none), none, part);
    }
    const tensor_type to = c.node_at(u).type;
    if (c.type_of(part).element != to.element) {
      part = apply.cast(part, to.element);
      if (n.scalar == is_widened && n.code == op::cast) part = c.in().marked(part, rounds_partial_sums);
    }
    const dim_set broadcast = n.type.set() & ~to.set(), has = c.type_of(part).set();
    if ((broadcast & has) != 0) part = c.in().reduce(reduction::sum, part, broadcast & has, n.where);
    if ((broadcast & ~has) != 0) part = times_count(c, part, broadcast & ~has, n.where);
    c.add(u, part, n.where);
  }
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// Whether a node adds its two operands up.
constexpr bool adds_operands(const node& n) { return n.code == op::add; }

/// Whether a node puts an update into its last operand; the second one is the update with 0 around it.
constexpr bool puts_update(const graph& g, const node& n) {
  return n.code == op::select && n.scalar == chooses_update && g.nodes[n.in[1]].code == op::dynamic_pad;
}

constexpr bool is_elementwise_node(const node&) { return true; }
/// To run along more dims is to be read with stride 0.
constexpr void express_elementwise(const node& n, const tensor_type&, fused_op& t) {
  if (n.code == op::broadcast) t.code = op::identity;
}

inline constexpr op_rules elementwise{
    .what = op_class::elementwise,
    .adjoint = &detail::adjoint_of_elementwise,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .gives_any_order = true,
    .traits = planner::elementwise_op,
    .is_expression = &is_elementwise_node,
    .express = &express_elementwise,
    .kind_of_step = step_kind::map,
};

}}} // namespace cleave::v0::rules
