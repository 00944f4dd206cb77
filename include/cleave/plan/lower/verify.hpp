// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/buffers.hpp>
#include <cleave/program/verify.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

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

}}} // namespace cleave::v0::lowering
