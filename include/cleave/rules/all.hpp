// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

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
#include <cleave/rules/source.hpp>
#include <cleave/rules/view.hpp>

namespace cleave::inline v0 {

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

/// What a step costs, by the rules of the class that becomes its kind of step; a move or a mark has none. By
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

} // namespace cleave::inline v0
