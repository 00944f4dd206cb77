// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/computed_halos.hpp>
#include <cleave/plan/lower/values.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

constexpr std::size_t add(partitioned& p, const partitioned_value& v) {
  p.values.push_back(v);
  return p.values.size() - 1;
}
/// Takes a value down as one of a node.
constexpr void note_version(partitioned& p, node_id u, std::size_t value) {
  const std::size_t entry = p.versions.size();
  p.versions.push_back({value, none});
  (p.first_of[u] == none ? p.first_of[u] : p.versions[p.last_of[u]].next) = entry;
  p.last_of[u] = entry;
}
/// Adds a value that stands for its node in its layout.
constexpr std::size_t add_version(partitioned& p, const partitioned_value& v) {
  const std::size_t made = add(p, v);
  note_version(p, v.node, made);
  return made;
}

/// The value that an earlier one becomes by a move.
constexpr partitioned_value moved_from(const partitioned_value& v, std::size_t from, const hop& by) {
  partitioned_value m = v;
  m.origin = origin::move;
  m.by = by;
  m.where = by.to;
  m.arity = 1;
  m.in[0] = from;
  return m;
}

constexpr std::size_t value_in(const assigned_graph& in, partitioned& p, node_id u, const layout& want);
/// Whether every device makes a node for itself: sources, and elementwise operations on uniform ones.
constexpr availability availability_of(const availability* made, const node& n) {
  if (n.arity == 0) {
    if (!rules::is_made_everywhere(n)) return availability::once;
    return rules::is_uniform(n) ? availability::uniform : availability::everywhere;
  }
  for (std::size_t k = 0; k < n.arity; ++k)
    if (made[n.in.items[k]] != availability::uniform) return availability::once;
  return is_elementwise(n.code) && n.pinned == 0 ? availability::uniform : availability::once;
}
/// Reads the operands of such a node in the layouts that it needs.
constexpr void read_operands(const assigned_graph& in, partitioned& p, partitioned_value& v) {
  const node& n = in.node_at(v.node);
  strategy s;
  s.out = v.where;
  v.arity = n.arity;
  for (std::size_t k = 0; k < n.arity; ++k)
    v.in[k] = value_in(in, p, n.in[k], required(n, in.factors[v.node], s, static_cast<int>(k)));
}

/// The value of a node in a layout. If it is not there yet, moves are added, from the layout from which that is
/// cheapest.
constexpr std::size_t value_in(const assigned_graph& in, partitioned& p, node_id u, const layout& want) {
  for (std::size_t e = p.first_of[u]; e != none; e = p.versions[e].next)
    if (p.values[p.versions[e].value].where == want) return p.versions[e].value;
  partitioned_value v;
  v.node = u;
  v.type = in.node_at(u).type;
  // It is moved where it is made: a value that enters a loop once is moved once, before the loop.
  v.loop = in.node_at(u).loop;
  if (p.made.at[u] != availability::once) {
    v.where = want.reduced();
    read_operands(in, p, v);
    const std::size_t whole = add_version(p, v);
    // Every device can make the whole value; as a partial one it is masked like any other.
    return want.unreduced() == 0 ? whole : add_version(p, moved_from(v, whole, {kind::mask, want.unreduced(), want}));
  }
  if (renames(in.node_at(u).code)) {
    v.origin = origin::rename;
    v.where = want;
    v.arity = 1;
    v.in[0] = value_in(in, p, in.node_at(u).in[0], want);
    return add_version(p, v);
  }
  for (const auto& [node, where] : in.copies) {
    if (node == u && where == want) break;
    if (node == u) value_in(in, p, u, where);
  }
  const shape global = shape_of(v.type, in.at);
  const std::int64_t element_bytes = size_of(v.type.element);
  std::size_t start = as_computed(p, u);
  path best = find_path(global, element_bytes, p.values[start].where, want, in.at.axes, in.rule);
  for (std::size_t e = p.versions[p.first_of[u]].next; e != none; e = p.versions[e].next) {
    const std::size_t i = p.versions[e].value;
    if (p.values[i].where.unreduced() != 0) continue;
    const path other = find_path(global, element_bytes, p.values[i].where, want, in.at.axes, in.rule);
    if (other.score < best.score) {
      best = other;
      start = i;
    }
  }
  for (const hop& h : best.hops) start = add_version(p, moved_from(v, start, h));
  return start;
}

/// The value of a region, made for its first reader `v`.
constexpr std::size_t region_value(const assigned_graph& in, partitioned& p, indexed_vector<std::size_t>& made,
                                   std::size_t r, std::size_t v) {
  if (made[r] != none) return made[r];
  const shared_region& region = p.regions.all[r];
  partitioned_value around;
  around.origin = origin::region;
  around.loop = in.node_at(region.operand).loop;
  around.node = narrowed(v);
  around.type = region.shape.type;
  around.where = region.shape.made;
  around.arity = 1;
  around.in[0] = value_in(in, p, region.operand, region.shape.taken);
  around.region = r;
  for (std::size_t q : region.needs) around.in[around.arity++] = region_value(in, p, made, q, v);
  for (const auto& [u, where] : region.constants)
    if (const std::size_t x = value_in(in, p, u, where); p.made[u] == availability::once) around.in[around.arity++] = x;
  return made[r] = add(p, around);
}

/// Operand k of a user's kernel that reads around its shards, if it reads around that one.
constexpr std::size_t region_of_kernel(const assigned_graph& in, partitioned& p, indexed_vector<std::size_t>& made,
                                       std::size_t v, std::size_t k, const layout& want) {
  const node& n = in.node_at(v);
  const region_shape shape = region_of_operand(halos_of(in.g, n), as_int(k), in.node_at(n.in[k]).type, want);
  if (shape.maps.empty()) return none;
  const bool changed = k == 0 && n.user->in_place;
  const auto serves = [&](const shared_region& known) {
    return known.operand == n.in[k] && !known.halo && !known.changed && known.shape == shape;
  };
  std::size_t r = 0;
  while (r < p.regions.all.size() && (changed || !serves(p.regions.all[r]))) ++r;
  if (r == p.regions.all.size()) {
    p.regions.all.push_back({n.in[k], shape});
    p.regions.all.back().changed = changed;
    made.push_back(none);
  }
  const std::size_t around = region_value(in, p, made, r, v);
  if (changed) p.values[around].loop = n.loop;
  return around;
}

/// The values of a node that marks the start, the next iteration or the end of a loop; `v` is its value elsewhere.
constexpr void split_loop(const assigned_graph& in, partitioned& p, partitioned_value v, const node& n) {
  switch (n.code) {
    case op::carry:
      // Set before the loop begins.
      v.loop = in.g.loops[n.of - 1u].around;
      break;
    case op::loop_slice: v.origin = in.g.loops[n.of - 1u].along == no_dim ? origin::rename : origin::slice; break;
    case op::loop_yield:
      v.origin = origin::next;
      v.arity = 1;
      v.in[1] = as_computed(p, n.in[1]);
      break;
    case op::loop_result:
      v.origin = origin::rename;
      v.in[0] = as_computed(p, n.in[0]);
      break;
    case op::loop_stack: {
      partitioned_value each = v;
      each.origin = origin::collect;
      each.loop = n.of;
      each.type = in.node_at(n.in[0]).type;
      for (int i = 0; i < each.type.rank; ++i) each.where.set(i, v.where[i + 1]);
      each.where.clear(each.type.rank);
      v.origin = origin::rename;
      v.in[0] = add(p, each);
      break;
    }
    case op::trip_count: p.iterations[n.of] = v.in[0]; return;
    default: p.until[n.of] = v.in[0]; return;
  }
  add_version(p, v);
}

/// The values of one node, after those that it reads.
constexpr void split_node(const assigned_graph& in, partitioned& p, indexed_vector<std::size_t>& regions,
                          std::size_t v) {
  const node& n = in.node_at(v);
  // A rename is made for its readers, from its operand in the layout that they need.
  if (renames(n.code)) return;
  if (n.arity == 0 || p.made.at[n.in.items[0]] == availability::uniform) {
    p.made.at[v] = availability_of(p.made.at, n);
    if (p.made.at[v] != availability::once) return;
  }
  partitioned_value made;
  made.node = narrowed(v);
  made.type = n.type;
  made.where = in.chosen[v].out;
  made.arity = n.arity;
  made.loop = n.loop;
  if (p.regions.of_node[v] != 0) {
    made.reads_neighbours = true;
    made.in[0] = region_value(in, p, regions, p.regions.of_node[v] - 1, v);
    add_version(p, made);
    return;
  }
  for (std::size_t k = 0; k < n.arity; ++k) {
    const layout want = required(n, in.factors[v], in.chosen[v], static_cast<int>(k));
    const std::size_t around = n.halos == 0 ? none : region_of_kernel(in, p, regions, v, k, want);
    made.in[k] = around != none ? around : value_in(in, p, n.in[k], want);
  }
  switch (class_of(n.code)) {
    case op_class::annotation: note_version(p, made.node, made.in[0]); return;
    case op_class::loop: return split_loop(in, p, made, n);
    case op_class::view: made.origin = origin::rename; break;
    default: break;
  }
  add_version(p, made);
}

/// The layout in which a result is asked for, in the order of the dims of the value.
constexpr layout asked_layout(const assigned_graph& in, std::size_t result) {
  const node_id v = in.g.outputs[result];
  if (!in.g.outputs_pinned) return rules::is_made_everywhere(in.node_at(v)) ? layout{} : in.chosen[v].out.reduced();
  layout asked = in.g.output_layouts[result];
  for (int i = 0; i < in.node_at(v).type.rank; ++i)
    asked.set(i, in.g.output_layouts[result][in.g.output_types[result].find(in.node_at(v).type[i])]);
  return asked;
}

/// Drops values that nothing reads any more, from value `last` back.
constexpr void drop_unread(const assigned_graph& in, partitioned& p, std::size_t last) {
  indexed_vector<int> readers;
  readers.assign(p.values.size(), 0);
  for (const partitioned_value& v : p.values) {
    for (std::size_t k = 0; k < v.arity; ++k) ++readers[v.in[k]];
    if (v.origin == origin::next) ++readers[v.in[1]];
  }
  for (const auto& steering : {p.iterations, p.until})
    for (std::size_t i : steering)
      if (i != none) ++readers[i];
  for (std::size_t r : p.results) ++readers[r];
  for (std::size_t i = last; i-- > 0;) {
    partitioned_value& v = p.values[i];
    if (readers[i] > 0 || is_argument(in, v) || (v.origin != origin::node && v.origin != origin::move)) continue;
    for (std::size_t k = 0; k < v.arity; ++k) --readers[v.in[k]];
    v.origin = origin::rename;
    v.arity = 0;
    v.in[0] = 0;
  }
}

/// Finds nodes that put an update into an array: they become a copy of the array, if it is needed at all, and an
/// exchange that writes the elements of the update alone.
constexpr void find_updates(const assigned_graph& in, partitioned& p) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    partitioned_value& v = p.values[i];
    if (v.origin != origin::node || !rules::puts_update(in.g, in.node_at(v.node))) continue;
    const partitioned_value &placed = p.values[v.in[1]], &around = p.values[v.in[2]];
    const bool alike = placed.origin == origin::node && placed.type == v.type && around.type == v.type &&
                       placed.where == v.where && around.where == v.where && v.where.unreduced() == 0 &&
                       placed.loop == v.loop;
    if (!alike) continue;
    v.updates = true;
    v.node = placed.node;
    v.in[0] = placed.in[0];
    v.in[1] = placed.in[1];
    last = i;
  }
  if (last > 0) drop_unread(in, p, last);
}

/// The values of a partitioned program: each node's as its strategy makes it, and those in the layouts that its readers
/// need. A value that several need in one layout is moved once.
constexpr partitioned split_values(const assigned_graph& in) {
  partitioned p;
  const std::size_t count = in.g.nodes.size();
  p.first_of.assign(count, none);
  p.last_of.assign(count, none);
  p.made.assign(count, availability::once);
  for (std::size_t l = 0; l <= max_loops; ++l) p.iterations[l] = p.until[l] = none;
  p.values.reserve(2 * count);
  p.versions.reserve(2 * count);
  p.regions = find_regions(in);
  find_computed_halos(in, p.regions);
  indexed_vector<std::size_t> regions(p.regions.all.size(), none);
  for (std::size_t v = 0; v < count; ++v) split_node(in, p, regions, v);
  for (std::size_t r = 0; r < in.g.outputs.size(); ++r)
    p.results.push_back(value_in(in, p, in.g.outputs[r], asked_layout(in, r)));
  find_updates(in, p);
  return p;
}

}}} // namespace cleave::v0::lowering
