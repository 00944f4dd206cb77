// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/buffers.hpp>

#include <utility>

namespace cleave { inline namespace v0 { namespace lowering {

constexpr std::uint8_t load(step& s, int buffer) {
  for (std::size_t i = 0; i < s.in.size(); ++i)
    if (s.in[i] == buffer) return narrowed(i);
  s.in.push_back(narrowed(buffer));
  return narrowed(s.in.size() - 1);
}

/// Appends an operation to the fused expression of a step, which is the last one that has one.
constexpr void append_op(emission& e, step& s, const fused_op& t) {
  indexed_vector<fused_op>& fused_ops = e.out.made.fused_ops;
  if (s.ops == 0) s.first_op = narrowed(fused_ops.size());
  fused_ops.push_back(t);
  ++s.ops;
}

/// The halo of a value that is read to compute the halo `around`; none: it is not read from a halo.
constexpr std::size_t halo_read_for(const emission& e, std::size_t around, std::size_t i) {
  const partitioned_value& v = e.p.values[around];
  for (std::size_t k = 1; k < v.arity; ++k)
    if (e.p.is_halo(v.in[k]) && e.p.values[v.in[k]].in[0] == i) return v.in[k];
  return none;
}

/// The entry of a value that an expression loads: it has memory, or it is read from a region. op::constant: the
/// expression computes it. `around`: the halo that the expression computes; none: it computes a shard.
constexpr fused_op loaded(emission& e, step& s, std::size_t around, std::size_t i, bool root) {
  const partitioned_value& v = e.p.values[i];
  // A value is computed again for a computed halo if it has dims along which the halo extends.
  const bool again = around != none && (v.type.set() & dims_of(e.p.regions.all[e.p.values[around].region].shape)) != 0;
  const bool fused = e.f.fused[i] != 0 || again;
  const std::size_t halo = around != none ? halo_read_for(e, around, i) : none;
  fused_op t;
  t.type = v.type.element;
  if (halo != none) {
    t.code = op::input;
    t.arg = load(s, view_at_shard(e, halo));
    load(s, buffer_of(e, i));
  } else if (v.reads_neighbours && (root || fused)) {
    t.code = op::input;
    t.arg = load(s, view_of(e, i));
    // The shard is read with its halo.
    if (e.p.is_halo(v.in[0])) load(s, buffer_of(e, e.p.values[v.in[0]].in[0]));
  } else if (!root && !fused && e.f.free[i] == 0) {
    t.code = op::input;
    t.arg = load(s, buffer_of(e, i));
  }
  return t;
}
/// The entry of an operation, without its operands.
constexpr fused_op operation_of(const node& n, const step& s, const partitioned_value& v) {
  fused_op t;
  t.type = v.type.element;
  t.code = n.code;
  t.scalar = n.scalar;
  t.user = n.user;
  t.over = n.over;
  t.line = n.where.line <= 0xFFFFu ? static_cast<std::uint16_t>(n.where.line) : std::uint16_t{0};
  if (const auto& own = rules_of(n).express; own.given) own.call(n, s.loop, t);
  return t;
}

/// Fills the expression of a step: the computation of a value, and of all that is fused into it. `computes`: the root
/// is computed here, although it has memory. Operands come before the operations that read them. The values that wait
/// for their operands are in a list: a chain may be longer than the compiler nests calls.
constexpr void express(emission& e, step& s, std::size_t root, bool computes, std::size_t around) {
  std::uint16_t* const entries = e.entries.at;
  e.expressed.clear();
  e.open.push_back({root});
  for (std::size_t depth = 1; depth != 0;) {
    visited_value& at = e.open.at[depth - 1];
    const std::size_t i = at.value;
    const partitioned_value& v = e.p.values.at[i];
    fused_op t;
    if (at.next < 0) {
      at.next = 0;
      t = loaded(e, s, around, i, computes && i == root);
    }
    std::uint16_t entry = 0;
    if (t.code != op::input) {
      const std::size_t* const in = v.in.items;
      while (at.next < v.arity && entries[in[at.next]] != 0) ++at.next;
      if (at.next < v.arity) {
        e.open.push_back({in[at.next]});
        ++depth;
        continue;
      }
      const node& n = e.in.node_at(v.node);
      t = operation_of(n, s, v);
      if (is_alias(t.code)) entry = entries[in[0]];
      for (std::size_t k = 0; k < v.arity; ++k) t.in[k] = narrowed(entries[in[k]] - 1);
      // A user's function takes three numbers, whatever it needs.
      for (std::size_t k = v.arity; k < t.in.size() && is_of_user(n.code); ++k) t.in[k] = t.in[0];
    }
    if (entry == 0) {
      append_op(e, s, t);
      entry = s.ops;
    }
    entries[i] = entry;
    e.expressed.push_back(i);
    e.open.pop_back();
    --depth;
  }
  for (std::size_t i : e.expressed) entries[i] = 0;
}

/// A step that evaluates an expression: over the dims of the value, and those that it reduces.
constexpr void emit_expression(emission& e, std::size_t i, step& s) {
  const partitioned_value& v = e.p.values[i];
  const node& n = e.in.node_at(v.node);
  const bool folds = is_folded(e.in, v);
  s.kind = folds ? step_kind::fold : step_kind::map;
  s.loop = loop_of(e.in, e.p, v);
  s.space = v.where.reduced();
  for (int d = v.type.rank, r = 0; d < s.loop.rank; ++d, ++r) s.space.set(d, e.in.chosen[v.node].over[r]);
  s.folded = narrowed(s.loop.rank - v.type.rank);
  s.combine = n.combine;
  express(e, s, folds ? v.in[0] : i, !folds, none);
}

/// A step that takes a value to another layout.
constexpr void emit_move(emission& e, const partitioned_value& v, step& s) {
  const layout& from = e.p.values[v.in[0]].where;
  s.kind = step_kind::move;
  s.move = v.by.move;
  s.axes = v.by.axes;
  s.combine = from.unreduced() != 0 ? from.combine() : v.where.combine();
  s.in.push_back(narrowed(buffer_of(e, v.in[0])));
}

/// A step that computes the elements around a shard, as the shard was computed.
constexpr void emit_computed_halo(emission& e, std::size_t i, step& s) {
  const partitioned_value& v = e.p.values[i];
  const node& n = e.in.node_at(e.p.regions.all[v.region].operand);
  s.kind = step_kind::map;
  s.code = n.origin;
  s.node = e.p.regions.all[v.region].operand;
  s.where = n.where;
  s.gradient = n.gradient;
  s.loop = v.type;
  s.space = v.where;
  express(e, s, v.in[0], true, i);
}

/// A step that fetches the elements around a shard.
constexpr void emit_region(emission& e, const partitioned_value& v, step& s) {
  const region_shape& shape = e.p.regions.all[v.region].shape;
  s.kind = step_kind::exchange;
  s.axes = fetched_over(shape);
  if (s.axes != 0) s.move = kind::exchange;
  s.in.push_back(narrowed(buffer_of(e, v.in[0])));
  s.first_map = narrowed(e.out.made.maps.size());
  s.maps = narrowed(shape.maps.size());
  for (const dim_map& m : shape.maps) {
    dim_map itself;
    itself.from = itself.to = m.from;
    itself.outside = m.outside;
    e.out.made.maps.push_back(itself);
  }
}

/// The step of an operation that has one of its own.
constexpr void emit_operation(emission& e, const partitioned_value& v, step& s) {
  const node& n = e.in.node_at(v.node);
  const op_rules& rules = rules_of(n);
  placed_op o;
  o.code = n.code;
  o.arity = n.arity;
  s.keeps = v.updates;
  for (std::size_t k = 0; k < n.arity; ++k) {
    const partitioned_value& operand = e.p.values[v.in[k]];
    o.in[k] = {&operand.type, operand.where};
    s.in.push_back(narrowed(buffer_of(e, v.in[k])));
  }
  o.out = {&v.type, v.where};
  o.maps = maps_of(e.in.g, n);
  o.user = n.user;
  if (rules.place.given) rules.place.call(n, e.in.chosen[v.node], o);
  s.kind = rules.kind_of_step;
  s.what = n.code;
  s.axes = o.over;
  if (s.axes != 0) s.move = rules.collective;
  rules.emit.call(n, o, s);
}

constexpr void fill_step(emission& e, std::size_t i, step& s) {
  const partitioned_value& v = e.p.values[i];
  const node& n = e.in.node_at(v.node);
  s.code = n.origin;
  s.gradient = n.gradient;
  s.node = v.node;
  s.where = n.where;
  s.in_loop = v.loop;
  if (v.origin == origin::move) emit_move(e, v, s);
  else if (v.origin == origin::region && e.p.regions.all[v.region].computed) emit_computed_halo(e, i, s);
  else if (v.origin == origin::region) emit_region(e, v, s);
  else if (is_expression(e.in, v)) emit_expression(e, i, s);
  else emit_operation(e, v, s);
  s.out = narrowed(buffer_of(e, i));
}

/// Copies a value to another buffer, perhaps in another memory order, for a value that needs it there.
constexpr void emit_copy(emission& e, std::size_t i, std::uint16_t to, const partitioned_value& reader) {
  step s;
  s.kind = step_kind::map;
  s.node = reader.node;
  s.where = e.in.node_at(s.node).where;
  s.code = reader.updates ? e.in.node_at(s.node).origin : op::reshard;
  s.loop = e.out.made.buffers[to].type;
  s.space = e.out.made.buffers[to].where.reduced();
  s.in_loop = reader.updates ? reader.loop : std::uint8_t{0};
  s.in.push_back(narrowed(buffer_of(e, i)));
  fused_op t;
  t.code = op::input;
  t.type = s.loop.element;
  append_op(e, s, t);
  s.out = to;
  e.out.made.steps.push_back(s);
}

constexpr void emit_step(emission& e, std::size_t i) {
  const partitioned_value& v = e.p.values[i];
  if (e.f.fused[i] != 0 || e.f.uses[i] == 0 || v.origin == origin::rename || v.origin == origin::slice) return;
  if (is_argument(e.in, v)) return;
  if (v.updates && e.m.of[i] != e.m.of[v.in[2]]) emit_copy(e, v.in[2], narrowed(buffer_of(e, i)), v);
  // Filled in place: constant evaluation pays for each copy of a step.
  fill_step(e, i, e.out.made.steps.emplace_back());
}
/// Copies a result to the caller's memory: it is an argument, another result, or wanted in another memory order.
constexpr void emit_result(emission& e, std::size_t r) {
  partitioned_value result = e.p.values[e.p.results[r]];
  result.updates = false;
  emit_copy(e, e.p.results[r], narrowed(e.in.g.inputs.size() + r), result);
}
/// Whether a carried value already has its next value: it was updated in its memory.
constexpr bool is_updated(const emission& e, std::size_t next) {
  const std::size_t from = e.p.values[next].in[0];
  return e.p.values[from].updates && e.m.of[from] == e.m.of[next];
}
/// Whether the next value of a carried value has memory of its own that no other update changes: it is copied.
constexpr bool is_copied(const emission& e, std::size_t next) {
  const std::size_t from = e.p.values[next].in[0];
  if (e.f.fused[from] != 0) return false;
  for (const partitioned_value& v : e.p.values)
    if (v.origin == origin::next && e.m.of[v.in[1]] == e.m.of[from]) return false;
  return true;
}
constexpr void emit_mark(emission& e, step_kind what, std::uint8_t loop, std::size_t steering) {
  step s;
  s.kind = what;
  s.in_loop = loop;
  if (steering != none) s.in.push_back(narrowed(buffer_of(e, steering)));
  e.out.made.steps.push_back(s);
}

/// The steps of a stretch of values that are part of a loop; those of loops around it are there already.
constexpr void emit_stretch(emission& e, std::size_t begin, std::size_t end, std::uint8_t loop) {
  const partitioned_value* values = e.p.values.data();
  const loop_list& loops = e.in.g.loops;
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint8_t within_loop = values[i].loop;
    if (within_loop == loop && values[i].origin != origin::next) emit_step(e, i);
    if (within_loop == loop || !within(loops, within_loop, loop)) continue;
    std::uint8_t inner = within_loop;
    while (loops[inner - 1u].around != loop) inner = loops[inner - 1u].around;
    std::size_t last = i;
    for (std::size_t j = i; j < end; ++j)
      if (within(loops, values[j].loop, inner)) last = j;
    // Loop-invariant values come first.
    for (std::size_t j = i; j < last; ++j)
      if (values[j].loop == loop) emit_step(e, j);
    emit_mark(e, step_kind::loop_begin, inner, e.p.iterations[inner]);
    emit_stretch(e, i, last + 1, inner);
    // Carried values get their next value when no step reads them any more, and plain copies come last.
    for (const bool copied : {false, true})
      for (std::size_t j = i; j <= last; ++j)
        if (values[j].loop == inner && values[j].origin == origin::next && !is_updated(e, j) &&
            is_copied(e, j) == copied)
          emit_step(e, j);
    emit_mark(e, step_kind::loop_end, inner, e.p.until[inner]);
    i = last;
  }
}

/// The steps that compute the values, over buffers in memory that is not yet shared between values of other times.
constexpr emitted emit(const assigned_graph& in, const partitioned& p, const fusion& f, const storage_plan& m) {
  emission e{in, p, f, m};
  program& made = e.out.made;
  made.mesh = in.g.mesh;
  made.dims = in.g.dims;
  made.rules = in.g.rules;
  made.maps = in.g.maps;
  made.loops = in.g.loops;
  made.arguments = narrowed(in.g.inputs.size());
  made.results = narrowed(in.g.outputs.size());
  e.out.storages = m.storages;
  e.buffers.assign(p.values.size(), -1);
  e.views.assign(p.values.size(), -1);
  e.entries.assign(p.values.size(), 0);
  e.expressed.reserve(64);
  e.open.reserve(32);
  e.region_maps.assign(p.regions.all.size(), 0);
  made.steps.reserve(p.values.size() + p.results.size() + 2 * in.g.loops.size());
  made.buffers.reserve(p.values.size() + p.results.size());
  e.out.memory.reserve(p.values.size() + p.results.size());
  emit_outer_buffers(e);
  emit_stretch(e, 0, p.values.size(), 0);
  for (std::size_t r = 0; r < p.results.size(); ++r)
    if (!written_in_place(p, m, r)) emit_result(e, r);
  return std::move(e.out);
}

}}} // namespace cleave::v0::lowering
