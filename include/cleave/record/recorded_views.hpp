// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/record/recorder.hpp>

// How the same elements under other dims are recorded.

namespace cleave::detail {

/// The same values with dim `from` called `to`.
constexpr value recorded_rename(recorder& in, value x, dim_ref from, dim_ref to, source where) {
  if (!x.ok()) return {&in, no_node};
  node n = in.node_on(op::rename, x, where);
  const int f = in.dim_of(x, from, "rename", where);
  if (f < 0) return {&in, no_node};
  if (to.extent == dynamic) to.extent = in.made().dims[static_cast<std::size_t>(f)].extent;
  const int t = in.dim(to, "rename", where);
  if (t < 0) return {&in, no_node};
  if (n.type.has(static_cast<dim_id>(t))) return in.fail(fault::dim_used_twice, "rename", where, to.name);
  if (!in.relate({static_cast<dim_id>(t), static_cast<dim_id>(f), no_dim}, "rename", where)) return {&in, no_node};
  n.type.dims[static_cast<std::size_t>(n.type.find(static_cast<dim_id>(f)))] = static_cast<dim_id>(t);
  n.which = {static_cast<dim_id>(f), static_cast<dim_id>(t), 0};
  return in.push(n);
}

/// One dim as two: whole index = major index * extent of minor + minor index.
constexpr value recorded_split(recorder& in, value x, dim_ref whole, dim_ref major, dim_ref minor, source where) {
  if (!x.ok()) return {&in, no_node};
  node n = in.node_on(op::split, x, where);
  const tensor_type from = n.type;
  const int w = in.dim_of(x, whole, "split", where);
  if (w < 0) return {&in, no_node};
  const int a = in.dim(major, "split", where), b = a < 0 ? -1 : in.dim(minor, "split", where);
  if (b < 0) return {&in, no_node};
  n.which = {static_cast<dim_id>(w), static_cast<dim_id>(a), static_cast<dim_id>(b)};
  for (const dim_ref* part : {&major, &minor})
    if (from.has(static_cast<dim_id>(in.made().find_dim(part->name))) || a == b)
      return in.fail(fault::dim_used_twice, "split", where, part->name);
  if (from.rank == max_rank) return in.fail(fault::rank_too_high, "split", where);
  n.type = {};
  n.type.element = from.element;
  for (int i = 0; i < from.rank; ++i) {
    n.type.append(from[i] == w ? n.which[1] : from[i]);
    if (from[i] == w) n.type.append(n.which[2]);
  }
  return in.relate(n.which, "split", where) ? in.push(n) : value{&in, no_node};
}

/// Two dims as one: whole index = major index * extent of minor + minor index.
constexpr value recorded_merge(recorder& in, value x, dim_ref major, dim_ref minor, dim_ref whole, source where) {
  if (!x.ok()) return {&in, no_node};
  const tensor_type from = in.at(x).type;
  const int a = in.dim_of(x, major, "merge", where), b = a < 0 ? -1 : in.dim_of(x, minor, "merge", where);
  if (b < 0) return {&in, no_node};
  if (a == b) return in.fail(fault::dim_missing, "merge", where, minor.name);
  const int w = in.dim(whole, "merge", where);
  if (w < 0) return {&in, no_node};
  if (from.has(static_cast<dim_id>(w))) return in.fail(fault::dim_used_twice, "merge", where, whole.name);
  node n = in.node_on(op::merge, x, where);
  n.type = {};
  n.which = {static_cast<dim_id>(a), static_cast<dim_id>(b), static_cast<dim_id>(w)};
  n.type.element = from.element;
  tensor_type adjacent;
  adjacent.element = from.element;
  for (int i = 0; i < from.rank; ++i) {
    if (from[i] == b) continue;
    n.type.append(from[i] == a ? n.which[2] : from[i]);
    adjacent.append(from[i]);
    if (from[i] == a) adjacent.append(n.which[1]);
  }
  if (adjacent != from) {
    // The parts must lie side by side in memory: one pass that writes them so.
    node turned = in.node_on(op::cast, x, where);
    turned.type = adjacent;
    n.in[0] = in.push(turned).id;
  }
  return in.relate({n.which[2], n.which[0], n.which[1]}, "merge", where) ? in.push(n) : value{&in, no_node};
}

} // namespace cleave::detail
