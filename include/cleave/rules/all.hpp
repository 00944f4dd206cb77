// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/graph/verify.hpp>
#include <cleave/rules/annotation.hpp>
#include <cleave/rules/call.hpp>
#include <cleave/rules/contraction.hpp>
#include <cleave/rules/cumulative.hpp>
#include <cleave/rules/elementwise.hpp>
#include <cleave/rules/loop.hpp>
#include <cleave/rules/reduction.hpp>
#include <cleave/rules/remap.hpp>
#include <cleave/rules/rows.hpp>
#include <cleave/rules/sort.hpp>
#include <cleave/rules/view.hpp>

namespace cleave { inline namespace v0 {

/// The rules of every class, in the order of op_class.
inline constexpr op_rules_table all_rules{{rules::source, rules::elementwise, rules::contraction, rules::reduction,
                                           rules::call, rules::remap, rules::gather, rules::scatter, rules::cumulative,
                                           rules::sort, rules::loop, rules::view, rules::annotated}};

constexpr const op_rules& rules_of(op_class what) { return all_rules[what]; }
constexpr const op_rules& rules_of(const node& n) { return all_rules[entry_of(n.code).what]; }

namespace detail {
constexpr bool rules_in_order() {
  std::size_t i = 0;
  for (const op_rules& r : all_rules.items)
    if (static_cast<std::size_t>(r.what) != i++) return false;
  return true;
}
static_assert(rules_in_order());
} // namespace detail

/// The price of a step, by the rules of the class that becomes its kind of step; a move or a mark has none. By
/// themselves, so that a program that prints a price does not compile all rules.
struct step_pricing {
  optional_function<cost(const placed_op&, const sizes&)> moves{};
  optional_function<std::int64_t(const placed_op&, const sizes&)> most_flops{};
  std::string_view reason{};
};
namespace detail {
constexpr enum_table<step_kind, step_pricing, std::size(step_kinds)> priced_steps() {
  enum_table<step_kind, step_pricing, std::size(step_kinds)> table{};
  bool known[std::size(step_kinds)] = {};
  // g++ 12 needs every entry written.
  for (step_pricing& p : table.items) p = step_pricing();
  for (const op_rules& r : all_rules.items) {
    const auto k = static_cast<std::size_t>(r.kind_of_step);
    if (known[k] || !(r.emit.given || r.folds)) continue;
    known[k] = true;
    table.items[k] = {r.moves, r.most_flops, r.reason};
  }
  return table;
}
inline constexpr auto pricing_by_step = priced_steps();
} // namespace detail
constexpr const step_pricing& pricing_of(step_kind k) { return detail::pricing_by_step[k]; }

constexpr factor_list factors_of(const graph& g, const node& n) {
  factor_list list;
  rules_of(n).factors.call(g, n, list);
  return list;
}
constexpr factor_table factors_of(const graph& g) {
  factor_table all;
  const std::size_t count = g.nodes.size();
  all.of_node.assign(count, {});
  // Most nodes have about as many factors as their results have dims.
  all.kept.reserve(4 * count);
  factor_list scratch;
  const node* nodes = g.nodes.data();
  for (std::size_t v = 0; v < count; ++v) {
    scratch.count = 0;
    rules_of(nodes[v]).factors.call(g, nodes[v], scratch);
    all.set(v, scratch);
  }
  return all;
}

/// Whether a node agrees with its operation: as many operands as the operation takes, and the offset of a map that only
/// the run knows, maps that name dims of both sides and windows of the side that has them, and factors that name each
/// position of the result at most once and each of an operand at most once.
constexpr bool verify_op(const graph& g, const node& n) {
  const op_entry& entry = entry_of(n.code);
  if (as_size(n.first_map) + n.maps > g.maps.size()) return false;
  int offsets = 0;
  for (const dim_map& m : maps_of(g, n)) {
    if (m.operand >= n.arity || m.at_run_time >= n.arity) return false;
    if (m.at_run_time >= entry.arity) offsets = 1;
    const tensor_type& from = rules::operand_type(g, n, m.operand);
    if (!n.type.has(m.to) || !from.has(m.from)) return false;
    if (m.window != no_dim && from.has(m.window) != (n.code == op::fold_windows)) return false;
  }
  if (entry.arity != 0 && n.arity != entry.arity + offsets) return false;
  unsigned seen[max_arity + 1]{};
  const factor_list factors = factors_of(g, n);
  for (const factor& f : factors)
    for (int k = 0; k <= max_arity; ++k) {
      if (f.at[k] < 0) continue;
      if (k != in_result && k >= n.arity) return false;
      const tensor_type& type = k == in_result ? n.type : rules::operand_type(g, n, k);
      if (f.at[k] >= type.rank || (seen[k] >> f.at[k] & 1u) != 0) return false;
      // Several maps may follow one dim of an operand.
      if (!f.is_fetched()) seen[k] |= 1u << f.at[k];
    }
  return true;
}
constexpr bool verify_ops(const graph& g) {
  for (const node& n : g.nodes)
    if (!verify_op(g, n)) return false;
  return true;
}

}} // namespace cleave::v0
