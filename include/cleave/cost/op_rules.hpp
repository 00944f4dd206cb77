// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/functions.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/collective.hpp>
#include <cleave/cost/policy.hpp>
#include <cleave/cost/strategy.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/ops/table.hpp>

namespace cleave { inline namespace v0 {

/// One operation with the layouts of its operands and of its result: of a node under a strategy, or of a step of a
/// program. Both are priced from this, so that they cost the same.
struct placed_op {
  struct tensor {
    const tensor_type* type = nullptr;
    layout where{};
  };
  tensor in[max_arity]{};
  int arity = 0;
  tensor out{};
  /// halos: of a node alone. The steps of its program before it fetch them.
  indexed_span<const dim_map> maps{}, halos{};
  /// The dim along which it sorts, adds up or looks up.
  dim_id along = no_dim;
  /// The axes over which its step communicates.
  axis_set over = 0;
  /// Which operation of its class it is.
  op code = op::input;
  const user_entry* user = nullptr;

  /// The axes that shard the result along its dim.
  constexpr axis_list axes_along() const { return out.where[out.type->find(along)]; }
};

/// The most elements that a device has of a tensor.
constexpr std::int64_t elements_of_busiest(const placed_op::tensor& t, const sizes& s) {
  return largest_shape(shape_of(*t.type, s), t.where, s.axes).elements();
}

enum class step_kind : std::uint8_t;
struct step;
struct fused_op;
struct value;

namespace detail {
class reverse_context;
}

namespace planner {
struct cost_model;
struct assignment;

/// Properties of a node that the search reads again and again, as bits.
enum node_trait : std::uint32_t {
  /// Costs nothing in any layout: a source, or an elementwise function of uniform values.
  rematerialised = 1u << 0,
  is_source = 1u << 1,
  elementwise_op = 1u << 2,
  /// A contraction: it follows its operands only if whole products are tried.
  contracting = 1u << 3,
  /// Has flops.
  has_flops = 1u << 4,
  /// The step of the node moves data itself.
  moves_data = 1u << 5,
  /// Its result is its operand: always (the value after a loop, other names), or unless that is partial (a barrier).
  transparent = 1u << 6,
  transparent_if_whole = 1u << 7,
  /// Its layout follows from others': a slice of a stack, and the next value of a carry.
  follows_others = 1u << 8,
  /// Its strategy may not change.
  fixed_strategy = 1u << 9,
  /// A layout that the user wrote is that of the whole value, not of partial sums.
  keeps_whole = 1u << 10,
  /// Its operands' layouts do not follow from its factors' axes alone, or not all of its strategies are valid: see
  /// op_rules.
  special = 1u << 11,
  /// Some position is pinned by the user.
  has_pins = 1u << 12,
  /// Its step fetches missing elements of its operands, which may be sharded independently.
  fetches_operands = 1u << 13,
  /// Reads elements at other indices: its operand may be moved before or after.
  remaps = 1u << 14,
  /// Has reduced factors.
  reduces = 1u << 15,
  /// Forwards partial sums of some operands.
  is_linear = 1u << 16,
  /// Some reader is transparent, other than a rename.
  read_through = 1u << 17,
  begins_loop = 1u << 18,
  /// Products may follow a change of it.
  leads_products = 1u << 19,
  /// A merge or a split of dims, which may become an exchange of elements.
  regroups = 1u << 20,
  /// Some reader follows it whatever happens: is transparent, other than a rename, or has no choice.
  leads = 1u << 21,
  /// Has no choice until the search looks further: a slice of a stack or another value from outside that a loop reads,
  /// which may be moved before.
  chosen_last = 1u << 22,
  /// All of its elements are one number that does not depend on arguments.
  uniform = 1u << 23,
  /// A kernel of the user, whose time nobody knows.
  of_user = 1u << 24,
};
inline constexpr std::uint32_t may_be_transparent = transparent | transparent_if_whole;
} // namespace planner

/// The functions of the passes for a class of operations: one file for each class, in rules/. A function that is not
/// given means that the class has nothing to say.
struct op_rules {
  op_class what{};
  /// Records the cotangents of a node's operands from that of its result; null: nothing flows, or, in a loop, by
  /// another way.
  optional_function<void(detail::reverse_context&, std::size_t v, const node&, value cotangent)> adjoint{};

  /// Appends the factors: the dims that may be sharded, and their positions.
  optional_function<void(const graph&, const node&, factor_list&)> factors{};
  /// Dims of the result that may not be sharded; null: all may.
  optional_function<dim_set(const graph&, const node&)> whole_dims{};
  /// It may be handed operands with their dims in another memory order than was recorded, since it reads dims by name;
  /// and it may give its result in another one. The others name the memory of their operand, keep its order, or are
  /// kernels of the user.
  bool reads_any_order = false, gives_any_order = false;
  /// Layouts propagate through it after they did through cheap operations: following those is worth it.
  bool propagates_late = false;
  /// How a split or merged dim's axes shard its two parts; null: there are no such dims.
  optional_function<view_parts(const graph&, const node&, axis_list whole)> parts{};
  /// Bits of node_trait that all operations of the class have.
  std::uint32_t traits = 0;
  /// Bits that depend on the node.
  optional_function<std::uint32_t(const node&)> traits_of{};

  /// Notes further facts than operands and result that decide the step's communication; null: there are none.
  optional_function<void(const node&, const strategy&, placed_op&)> place{};
  /// The communication of the step; null: none. The price of the node and of the step.
  optional_function<cost(const placed_op&, const sizes&)> moves{};
  /// Whether the search weighs that: it does not if all strategies move the same.
  bool weighed = true;
  /// Whether prices of moves are remembered by maps and types. Finding which device lacks which elements takes long.
  bool remembered = false;
  /// Floating-point operations of all devices, of nodes with the trait has_flops.
  optional_function<double(const graph&, const node&, const sizes&)> flops{};
  /// Those of the busiest device, as a program reports them.
  optional_function<std::int64_t(const placed_op&, const sizes&)> most_flops{};

  /// Adds strategies beyond those that operands and readers suggest; null: there are none.
  optional_function<void(const planner::cost_model&, planner::assignment&, std::size_t v, indexed_vector<strategy>&)>
      offer{};
  /// Whether a strategy is possible that the factors allow; null: all are.
  optional_function<bool(const planner::cost_model&, std::size_t v, const strategy&)> possible{};
  /// The strategy of a node that has no choice (follows_others).
  optional_function<strategy(const planner::cost_model&, const planner::assignment&, std::size_t v)> follow{};

  /// Whether the step of a node evaluates an expression element by element, into which the operations that it reads may
  /// be fused; null: it does not.
  optional_function<bool(const node&)> is_expression{};
  /// The node's fields in such an expression, besides its code; op::identity: its operand.
  optional_function<void(const node&, const tensor_type& loop, fused_op&)> express{};
  /// Whether the step reduces the expression of its operand along dims, so that nothing is fused behind it.
  bool folds = false;
  /// Otherwise a node becomes a step of this kind, by this collective if it communicates; null: no step.
  optional_function<void(const node&, const placed_op&, step&)> emit{};
  step_kind kind_of_step{};
  kind collective = kind::none;
  /// Why its step communicates.
  std::string_view reason{};
};

/// The rules of all classes, in the order of op_class. A plain array, which constant evaluation indexes at once.
using op_rules_table = enum_table<op_class, op_rules, op_class_count>;

}} // namespace cleave::v0

namespace cleave { inline namespace v0 { namespace rules {

/// The position of a dim in a tensor; -1 if it has none.
constexpr std::int8_t position_of(const tensor_type& t, dim_id d) { return static_cast<std::int8_t>(t.find(d)); }
constexpr const tensor_type& operand_type(const graph& g, const node& n, int k) {
  return g.nodes.at[n.in.items[k]].type;
}

/// Dims by name: each dim of the result has the same sharding wherever it appears, and each dim of `over` is reduced.
constexpr void add_factors_by_name(const graph& g, const node& n, factor_list& list, int first_dim) {
  for (int i = first_dim; i < n.type.rank; ++i) {
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
  if (n.over == 0 || n.arity == 0) return;
  const tensor_type& first = operand_type(g, n, 0);
  for (int i = 0; i < first.rank; ++i) {
    if ((n.over & dim_bit(first[i])) == 0) continue;
    factor f;
    f.type = factor_type::reduction;
    f.at[0] = static_cast<std::int8_t>(i);
    if (n.arity > 1) f.at[1] = position_of(operand_type(g, n, 1), first[i]);
    list.push_back(f);
  }
}
constexpr void factors_by_name(const graph& g, const node& n, factor_list& list) { add_factors_by_name(g, n, list, 0); }

}}} // namespace cleave::v0::rules
