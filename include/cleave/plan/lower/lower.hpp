// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/choose.hpp>
#include <cleave/plan/lower/allocate.hpp>
#include <cleave/plan/lower/buffers.hpp>
#include <cleave/plan/lower/emit.hpp>
#include <cleave/plan/lower/join_passes.hpp>
#include <cleave/plan/lower/overlap_exchanges.hpp>
#include <cleave/plan/lower/overlap_moves.hpp>
#include <cleave/plan/lower/overlap_products.hpp>
#include <cleave/plan/lower/panels.hpp>
#include <cleave/plan/lower/ranges.hpp>
#include <cleave/plan/lower/scale_products.hpp>
#include <cleave/plan/lower/split_values.hpp>
#include <cleave/program/verify.hpp>

#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

namespace lowering {

/// Whether a value of an operation reads its operands in the layouts that the strategy of its node requires.
constexpr bool reads_as_required(const assigned_graph& in, const partitioned& p, const partitioned_value& v) {
  const node& n = in.node_at(v.node);
  strategy s = in.chosen[v.node];
  if (p.made[v.node] != availability::once) s.out = v.where;
  if (v.where != s.out) return false;
  if (v.updates && (v.arity != n.arity + 1 || p.values[v.in[n.arity]].where != v.where)) return false;
  if ((v.arity != n.arity && !v.updates) || v.reads_neighbours) return v.reads_neighbours;
  for (std::size_t k = 0; k < n.arity; ++k)
    if (p.values[v.in[k]].where != required(n, in.factors[v.node], s, static_cast<int>(k))) return false;
  return true;
}

/// After split_values: every value follows those that it reads, each in a possible layout; operations read the layouts
/// that their strategies require, moves are one legal collective, and results come in the requested layouts.
constexpr bool verify(const assigned_graph& in, const partitioned& p) {
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    const partitioned_value& v = p.values[i];
    if (v.node >= in.g.nodes.size() || !verify(v.where, v.type.rank, in.g.mesh)) return false;
    for (std::size_t k = 0; k < v.arity; ++k)
      if (v.in[k] >= i) return false;
    if (v.origin == origin::node && !reads_as_required(in, p, v)) return false;
    if (v.origin == origin::next && (v.in[1] >= i || p.values[v.in[1]].type != v.type)) return false;
    if (v.origin == origin::region && v.region >= p.regions.all.size()) return false;
    if (v.origin != origin::move) continue;
    const partitioned_value& from = p.values[v.in[0]];
    if (from.type != v.type || v.by.to != v.where || !is_legal(v.by, from.where)) return false;
  }
  if (p.results.size() != in.g.outputs.size()) return false;
  for (std::size_t r : p.results)
    if (r >= p.values.size()) return false;
  return true;
}

/// After fuse: a value is computed inside one step at most, of its own loop and over its own dims.
constexpr bool verify(const assigned_graph& in, const partitioned& p, const fusion& f) {
  // The step in which each value is computed; those that every reader computes have none.
  indexed_vector<std::size_t> step(p.values.size(), none);
  for (std::size_t i = p.values.size(); i-- > 0;) {
    const partitioned_value& v = p.values[i];
    if (f.uses[i] == 0) continue;
    const bool anywhere = f.free[i] != 0 || v.reads_neighbours;
    if (f.fused[i] == 0) step[i] = i;
    else if (!anywhere && (step[i] >= several || !is_expression(in, v) || is_folded(in, v) ||
                           p.values[step[i]].loop != v.loop || loop_of(in, p, p.values[step[i]]).set() != v.type.set()))
      return false;
    if (f.fused[i] != 0 && anywhere) continue;
    for (std::size_t k = 0; k < v.arity; ++k) {
      const std::size_t from = v.in[k];
      if (f.fused[from] == 0) continue;
      if (!is_expression(in, v)) return false;
      step[from] = step[from] == none || step[from] == step[i] ? step[i] : several;
    }
  }
  for (std::size_t r : p.results)
    if (f.fused[r] != 0) return false;
  return true;
}

/// After place: every value that has a step has memory; a piece of memory that several have holds elements of one type;
/// each result has its own or none of the caller's.
constexpr bool verify(const partitioned& p, const fusion& f, const storage_plan& m) {
  indexed_vector<element> held(m.storages.size(), element::none);
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    if (f.fused[i] != 0) continue;
    if (m.of[i] >= m.storages.size()) return false;
    element& e = held[m.of[i]];
    if (e != element::none && e != p.values[i].type.element) return false;
    e = p.values[i].type.element;
  }
  indexed_vector<int> owners(p.results.size(), 0);
  for (const storage& s : m.storages)
    if (s.role == role::output && (s.index >= owners.size() || ++owners[s.index] > 1)) return false;
  return true;
}

/// After emission, and after steps were reordered: they can run in their order.
constexpr bool verify(const emitted& e) {
  indexed_vector<std::size_t> memory;
  for (std::size_t m : e.memory) memory.push_back(e.storages[m].role == role::input ? read_only_memory : m);
  return verify_steps(e.made, memory);
}

} // namespace lowering

/// The steps of a graph under given strategies.
///
/// Each pass is verified. The compiler checks the finished program alone: a mistake of an earlier pass makes it wrong
/// or more expensive, never silently different; a check of each pass costs as much as the pass. Unit tests, the oracle
/// and the fuzzer, which run the same code at run time, check all of them.
constexpr program lower(const graph& g, const choice& chosen, const sizes& at, const policy& rule) {
  const lowering::assigned_graph in{g, chosen.by_node, chosen.factors, at, rule, chosen.copies};
  bool sound = true;
  const auto check = [&](const auto&... made) {
    if (!std::is_constant_evaluated()) sound = sound && lowering::verify(made...);
  };
  const lowering::partitioned values = lowering::split_values(in);
  check(in, values);
  const lowering::fusion fused = lowering::fuse(in, values);
  check(in, values, fused);
  const lowering::storage_plan placed = lowering::place(in, values, fused);
  check(values, fused, placed);
  lowering::emitted steps = lowering::emit(in, values, fused, placed);
  check(steps);
  if (rule.workspace > 0) {
    lowering::panel_gathering(steps, at, rule.workspace).run();
    check(steps);
  }
  lowering::scale_products(steps);
  check(steps);
  lowering::pass_joining(steps).run();
  check(steps);
  lowering::range_cutting(steps.made).run();
  lowering::combine_all_reduces(steps.made.steps, steps.made.buffers, steps.memory);
  check(steps);
  if (rule.overlap) lowering::overlap_products(steps, at, rule);
  check(steps);
  lowering::combine_exchanges(steps.made.steps, steps.made.buffers, steps.made.maps, steps.memory);
  lowering::overlap_exchanges(steps.made.steps, steps.made.buffers, steps.made.maps, steps.memory);
  check(steps);
  if (rule.overlap) lowering::overlap_moves(steps, at, rule);
  check(steps);
  program made = lowering::allocate(std::move(steps));
  lowering::find_lookups_of_products(made);
  // Moves in flight hold memory.
  if (rule.workspace > 0 && rule.overlap && workspace(made, at) > rule.workspace) {
    policy one_by_one = rule;
    one_by_one.overlap = false;
    return lower(g, chosen, at, one_by_one);
  }
  if (!sound || !verify(made)) made.found = {fault::internal, {}, "lower"};
  return made;
}

}} // namespace cleave::v0
