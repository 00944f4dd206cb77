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

inline constexpr auto rules_by_step = [] {
  enum_table<step_kind, const op_rules*, std::size(step_kinds)> table{};
  for (const op_rules& r : all_rules.items)
    if (const op_rules*& first = table.items[static_cast<std::size_t>(r.kind_of_step)];
        first == nullptr && (r.emit != nullptr || r.folds))
      first = &r;
  return table;
}();
} // namespace detail

/// The rules of the class that becomes a kind of step; null: it is a move, or a mark.
constexpr const op_rules* rules_of(step_kind k) { return detail::rules_by_step[k]; }

/// Those that say what a step costs. By themselves, so that a program that prints a price does not compile all rules.
struct step_pricing {
  cost (*moves)(const placed_op&, const sizes&) = nullptr;
  std::int64_t (*most_flops)(const placed_op&, const sizes&) = nullptr;
  std::string_view reason{};
};
namespace detail {
inline constexpr auto pricing_by_step = [] {
  enum_table<step_kind, step_pricing, std::size(step_kinds)> table{};
  for (std::size_t k = 0; k < table.size(); ++k)
    if (const op_rules* r = rules_by_step.items[k]; r != nullptr) table.items[k] = {r->moves, r->most_flops, r->reason};
  return table;
}();
} // namespace detail
constexpr const step_pricing& pricing_of(step_kind k) { return detail::pricing_by_step[k]; }

constexpr factor_list factors_of(const graph& g, const node& n) {
  factor_list list;
  rules_of(n).factors(g, n, list);
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
    rules_of(nodes[v]).factors(g, nodes[v], scratch);
    all.set(v, scratch);
  }
  return all;
}

} // namespace cleave::inline v0
