// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/cost/region.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/annotation.hpp>
#include <cleave/rules/reverse_context.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// Records a kernel and how far it reads around its shards.
constexpr value push_call(recorder& in, node& n, indexed_span<const dim_map> halos) {
  const node& first = in.made().nodes[n.in[0]];
  const layout there = rules::annotation_of(first) == rules::annotation::moved_layout ? first.pin : layout{};
  if (n.user->in_place && (n.type != first.type || (n.local && n.pin != there)))
    return in.fail(fault::in_place_differs, n.user->name, n.where);
  n.halos = narrowed(halos.size());
  n.first_halo = in.keep_maps(halos);
  return in.push(n);
}

/// A user's kernel on shards. Dims in `whole` are gathered. The others have the same sharding wherever they appear.
constexpr value recorded_call(recorder& in, const user_entry& user, indexed_span<const value> args,
                              indexed_span<const dim_ref> whole, const tensor_type& result, source where,
                              indexed_span<const dim_map> halos = {}) {
  node n;
  n.code = op::call;
  n.user = &user;
  n.type = result;
  if (!in.take_operands(n, args, where)) return {&in, no_node};
  for (const dim_ref& d : whole) {
    const int id = in.made().find_dim(d.name);
    if (id < 0) return in.fail(fault::dim_missing, user.name, where, d.name);
    n.over |= dim_bit(id);
  }
  // Dims that an operand has and the result lacks are gathered too: the kernel does not say how to combine partial
  // results.
  return push_call(in, n, halos);
}
/// The same in manual mode: operands come in the layouts to which they were resharded, whole if they were not, and the
/// result has the given layout.
constexpr value recorded_local_call(recorder& in, const user_entry& user, indexed_span<const value> args, element type,
                                    const spec& s, source where, indexed_span<const dim_map> halos = {}) {
  node n;
  n.code = op::call;
  n.user = &user;
  n.local = true;
  n.type.element = type;
  if (!in.take_operands(n, args, where)) return {&in, no_node};
  for (const placement& p : s.dims) {
    const int d = in.dim(p.dim, user.name, where);
    if (d < 0) return {&in, no_node};
    if (n.type.has(d)) return in.fail(fault::dim_used_twice, user.name, where, p.dim.name);
    n.type.append(d);
  }
  if (!in.resolve(s, n.type, user.name, where, n.pin, n.pinned)) return {&in, no_node};
  return push_call(in, n, halos);
}
/// The type of a value with dims by name.
constexpr tensor_type type_named(recorder& in, element type, indexed_span<const dim_ref> dims, source where) {
  tensor_type t;
  t.element = type;
  for (const dim_ref& d : dims)
    if (const int id = in.dim(d, "call", where); id >= 0) t.append(id);
  return t;
}

/// A user's kernel has no derivative but that of a region around it.
constexpr void adjoint_of_call(reverse_context& c, std::size_t, const node& n, value) {
  for (std::size_t k = 0; k < n.arity; ++k)
    if (c.depends(n.in[k])) c.refuse_derivative(n);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

constexpr dim_set whole_dims_of_call(const graph&, const node& n) { return n.over; }

/// A user's kernel: dims by name, but for those that it needs whole. A local call has the layouts that the user wrote
/// for its operands, which are resharded to them, and no choice.
constexpr void factors_of_call(const graph& g, const node& n, factor_list& list) {
  for (int i = 0; i < n.type.rank && !n.local; ++i) {
    if ((n.over & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = narrowed(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
  for (int k = 0; k < n.arity && n.local; ++k) {
    const node& from = g.nodes[n.in[k]];
    for (int i = 0; i < from.type.rank && annotation_of(from) == annotation::moved_layout; ++i) {
      if (from.pin.axes(i) == 0) continue;
      factor f;
      f.type = factor_type::need_replication;
      f.at[k] = narrowed(i);
      f.pin = from.pin[i];
      list.push_back(f);
    }
  }
}

/// A user's kernel may be sharded in every way that its dims allow; a local call has the layouts that the user wrote.
constexpr void offer_calls(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                           indexed_vector<strategy>& list) {
  if (!m.node_at(v).local) planner::add_all_ways(m, a, v, list);
}

/// The halos, and the user's price of the kernel's communication, from the largest shards of its operands and its
/// result.
constexpr cost moves_of_call(const placed_op& o, const sizes& s) {
  cost all;
  for (int k = 0; k < o.arity && !o.halos.empty(); ++k)
    all = all + region_cost(region_of_operand(o.halos, k, *o.in[k].type, o.in[k].where), s);
  if (!o.user->bytes.given) return all;
  static_vector<shape, max_arity + 1> shards, whole;
  for (int k = 0; k <= o.arity; ++k) {
    const auto& x = k < o.arity ? o.in[k] : o.out;
    whole.push_back(shape_of(*x.type, s));
    shards.push_back(largest_shape(whole.back(), x.where, s.axes));
  }
  all.bytes += o.user->bytes.call(indexed_span<const shape>(shards.begin(), shards.end()),
                                  indexed_span<const shape>(whole.begin(), whole.end()), s.axes);
  return all;
}

/// The user's count of the kernel's floating-point operations.
constexpr double flops_of_call(const graph& g, const node& n, const sizes& s) {
  static_vector<shape, max_arity + 1> whole;
  for (int k = 0; k < n.arity; ++k) whole.push_back(shape_of(operand_type(g, n, k), s));
  whole.push_back(shape_of(n.type, s));
  return n.user->flops.call(indexed_span<const shape>(whole.begin(), whole.end()), detail::named_dims(n.type, g.dims));
}
constexpr std::uint32_t traits_of_call(const node& n) {
  return (n.user->flops.given ? planner::has_flops : 0u) | (n.halos != 0 ? planner::moves_data : 0u);
}

constexpr void emit_call(const node& n, const placed_op& o, step& s) {
  s.user = n.user;
  s.loop = *o.out.type;
  s.space = o.out.where;
}

inline constexpr op_rules call{
    .what = op_class::call,
    .adjoint = &detail::adjoint_of_call,
    .factors = &factors_of_call,
    .whole_dims = &whole_dims_of_call,
    .traits = planner::special | planner::of_user,
    .traits_of = &traits_of_call,
    .moves = &moves_of_call,
    .weighed = false,
    .flops = &flops_of_call,
    .offer = &offer_calls,
    .emit = &emit_call,
    .kind_of_step = step_kind::call,
};

}}} // namespace cleave::v0::rules
