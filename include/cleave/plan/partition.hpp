// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/simplify.hpp>
#include <cleave/plan/lower/lower.hpp>
#include <cleave/rules/all.hpp>

#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

namespace detail {

/// Lets a computed result take the memory order in which it is asked, so that nothing is transposed afterwards. A
/// result keeps the recorded order if one of its readers needs that.
constexpr void adopt_result_order(graph& g) {
  if (!g.outputs_pinned) return;
  indexed_vector<std::uint8_t> keeps(g.nodes.size(), 0);
  for (const node& n : g.nodes)
    for (int k = 0; k < n.arity && !rules_of(n).reads_any_order; ++k) keeps[n.in[k]] = 1;
  for (std::size_t r = 0; r < g.outputs.size(); ++r) {
    node& n = g.nodes[g.outputs[r]];
    if (keeps[g.outputs[r]] == 0 && rules_of(n).gives_any_order) n.type.dims = g.output_types[r].dims;
  }
}

/// The seconds in which a device stores the operands of remaps, at least, and reads them again. A byte through memory
/// takes as long as about ten flops, on processors and on devices.
constexpr double storing_for_remaps(const graph& g, const sizes& at, const policy& rule) {
  indexed_vector<std::uint8_t> taken(g.nodes.size(), 0);
  double seconds = 0;
  for (const node& n : g.nodes)
    for (int k = 0; k < n.arity && n.maps != 0; ++k) {
      const node& v = g.nodes[n.in[k]];
      if (v.arity == 0 || taken[n.in[k]]++ != 0) continue;
      const double bytes = static_cast<double>(shape_of(v.type, at).elements() * size_of(v.type.element));
      seconds += 2 * 10 * rule.flop * bytes * static_cast<double>(iterations_of(g.loops, v.loop, at));
    }
  for (int a = 0; a < g.mesh.size(); ++a) seconds /= static_cast<double>(at.axes[a]);
  return seconds;
}

/// Remaps in a row as one send elements once, but to more devices, and store no value between them: as several if that
/// is cheaper.
constexpr void keep_apart_if_cheaper(const graph& recorded, graph& g, choice& chosen, const sizes& hints,
                                     const policy& rule) {
  graph apart = simplify(recorded, false);
  adopt_result_order(apart);
  const double stored = storing_for_remaps(apart, hints, rule) - storing_for_remaps(g, hints, rule);
  if (chosen.found.ok() && chosen.score <= stored) return;
  choice other = choose(apart, hints, rule);
  if (!other.found.ok() || (chosen.found.ok() && chosen.score <= other.score + stored)) return;
  g = std::move(apart);
  chosen = std::move(other);
}

} // namespace detail

/// Partitions a recorded graph into the steps that every device runs. `hints` are the sizes for which choices are
/// priced: fixed sizes, and planning hints for sizes that are known only at run time. The result is correct for every
/// size.
constexpr program partition(const graph& recorded, const sizes& hints, const policy& rule = policy::time()) {
  program none;
  none.found = recorded.found;
  if (!recorded.found.ok()) return none;
  graph g = simplify(recorded);
  detail::adopt_result_order(g);
  none.found = {fault::internal, {}, "partition"};
  if (!verify(recorded) || !verify(g) || (!std::is_constant_evaluated() && !verify_ops(g))) return none;
  const bool composed = g.maps.size() > recorded.maps.size();
  choice chosen = choose(g, hints, rule);
  if (composed) detail::keep_apart_if_cheaper(recorded, g, chosen, hints, rule);
  for (std::size_t v = 0; v < g.nodes.size(); ++v)
    if (!verify(chosen.by_node[v].out, g.nodes[v].type.rank, g.mesh)) return none;
  if (!chosen.found.ok()) {
    none.found = chosen.found;
    return none;
  }
  program made = lower(g, chosen, hints, rule);
  return made.found.ok() ? made : none;
}

}} // namespace cleave::v0
