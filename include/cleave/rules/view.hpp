// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/op_rules.hpp>
#include <cleave/rules/remap.hpp>
#include <cleave/rules/reverse_context.hpp>
#include <cleave/type/tensor_type.hpp>

#include <array>

namespace cleave { inline namespace v0 { namespace detail {

/// The same values with dim `from` called `to`. If the two have different blocks, it is an exchange of elements.
constexpr value recorded_rename(recorder& in, value x, dim_ref from, dim_ref to, source where) {
  if (!x.ok()) return {&in, no_node};
  node n = in.node_on(op::rename, x, where);
  const int f = in.dim_of(x, from, "rename", where);
  if (f < 0) return {&in, no_node};
  if (in.made().dims[f].blocks != to.blocks) {
    remapping r(op::slice, operand(x));
    if (const dim_map* m = r.along(from, to)) r.extent(m->to, sum_of(0, m->from));
    return r.record();
  }
  if (to.extent == dynamic) to.extent = in.made().dims[f].extent;
  const int t = in.dim(to, "rename", where);
  if (t < 0) return {&in, no_node};
  if (n.type.has(t)) return in.fail(fault::dim_used_twice, "rename", where, to.name);
  if (!in.relate({narrowed(t), narrowed(f), no_dim}, "rename", where)) return {&in, no_node};
  n.type.dims[n.type.find(f)] = narrowed(t);
  n.which = {narrowed(f), narrowed(t), 0};
  return in.push(n);
}

/// Names that a dim has for a moment. A template, so that only programs that use them make them.
template <class = void>
inline constexpr auto spare_names = numbered_names("spare");

/// Several dims at once: a pair of names for each, the old one and the new one.
template <std::size_t Count>
constexpr value recorded_renames(recorder& in, value x, std::array<dim_ref, Count> names, source where) {
  // A pair waits while its new name is the old one of another pair. If pairs wait for each other in a circle, one of
  // the dims gives its name away first.
  std::size_t open = 0;
  for (std::size_t i = 0; i < Count; i += 2)
    if (names[i].name != names[i + 1].name) {
      names[open++] = names[i];
      names[open++] = names[i + 1];
    }
  while (open != 0 && x.ok()) {
    std::size_t next = open;
    for (std::size_t i = 0; i < open && next == open; i += 2) {
      bool is_free = true;
      for (std::size_t k = 0; k < open; k += 2) is_free = is_free && (k == i || names[k].name != names[i + 1].name);
      if (is_free) next = i;
    }
    if (next == open) {
      const int dim = in.dim_of(x, names[0], "rename", where);
      if (dim < 0) return {&in, no_node};
      const dim_ref spare{spare_names<>[as_size(dim)].text(), dynamic, false, in.made().dims[dim].blocks};
      x = recorded_rename(in, x, names[0], spare, where);
      names[0] = spare;
      continue;
    }
    x = recorded_rename(in, x, names[next], names[next + 1], where);
    open -= 2;
    names[next] = names[open];
    names[next + 1] = names[open + 1];
  }
  return x;
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
  n.which = {narrowed(w), narrowed(a), narrowed(b)};
  for (const dim_ref* part : {&major, &minor})
    if (from.has(in.made().find_dim(part->name)) || a == b)
      return in.fail(fault::dim_used_twice, "split", where, part->name);
  if (from.rank >= max_rank) return in.fail(fault::rank_too_high, "split", where);
  // The dims behind move up by one, so that compilers see the final place of the last one.
  const int at = from.find(w);
  n.type.rank = narrowed(from.rank + 1);
  for (int i = from.rank; i > at + 1; --i) n.type[i] = from[i - 1];
  n.type[at] = n.which[1];
  n.type[at + 1] = n.which[2];
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
  if (from.has(w)) return in.fail(fault::dim_used_twice, "merge", where, whole.name);
  node n = in.node_on(op::merge, x, where);
  n.type = {};
  n.which = {narrowed(a), narrowed(b), narrowed(w)};
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
    // The parts must be adjacent in memory: one pass that writes them so.
    node turned = in.node_on(op::cast, x, where);
    turned.type = adjacent;
    n.in[0] = in.push(turned).id;
  }
  return in.relate({n.which[2], n.which[0], n.which[1]}, "merge", where) ? in.push(n) : value{&in, no_node};
}

/// The same elements back under the operand's dims.
constexpr value viewed_back(reverse_context& c, const node& n, value g) {
  recorder& in = c.in();
  const auto has = [&](int k) { return c.type_of(g).has(n.which[k]); };
  const dim_ref first = c.dim_at(n.which[0]), second = c.dim_at(n.which[1]);
  if (n.code == op::rename) return has(1) ? recorded_rename(in, g, second, first, n.where) : g;
  const dim_ref third = c.dim_at(n.which[2]);
  if (n.code == op::merge) return has(2) ? recorded_split(in, g, third, first, second, n.where) : g;
  if (!has(1) && !has(2)) return g;
  if (!has(1) || !has(2)) g = in.broadcast(g, n.type, n.where);
  return recorded_merge(in, g, second, third, first, n.where);
}
constexpr void adjoint_of_view(reverse_context& c, std::size_t, const node& n, value g) {
  c.add(n.in[0], viewed_back(c, n, g), n.where);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// The number of devices of a list of axes, `dynamic` if it is not known.
constexpr std::int64_t devices_of(const graph& g, axis_list list) {
  std::int64_t parts = 1;
  for (int i = 0; i < list.size(); ++i) {
    const std::int64_t size = g.mesh.axes[list[i]].size;
    if (size == dynamic) return dynamic;
    parts *= size;
  }
  return parts;
}

/// A view's dims: rename {from, to}, split {whole, major, minor}, merge {major, minor, whole}.
struct view_dims {
  dim_id whole = no_dim, major = no_dim, minor = no_dim;
};
constexpr view_dims dims_of_view(const node& n) {
  if (n.code == op::split) return {n.which[0], n.which[1], n.which[2]};
  return {n.which[2], n.which[0], n.which[1]};
}

/// A merge, of which the minor dim has a fixed extent, as an exchange of elements.
constexpr void merge_by_elements(graph& g, std::size_t v) {
  node& n = g.nodes[v];
  dim_map major, minor;
  major.from = n.which[0];
  minor.from = n.which[1];
  major.to = minor.to = n.which[2];
  major.divisor = g.dims[n.which[1]].extent > 0 ? g.dims[n.which[1]].extent : 1;
  major.floors = true;
  minor.outside = border::periodic;
  n.code = op::merge_blocks;
  n.first_map = narrowed(g.maps.size());
  n.maps = 2;
  g.maps.push_back(major);
  g.maps.push_back(minor);
}

/// A split, of which the minor dim has a fixed extent, as an exchange of elements: windows of the whole dim, of which
/// the major or the minor part is whole on each device.
constexpr void split_by_elements(graph& g, std::size_t v, bool shards_minor) {
  node& n = g.nodes[v];
  const std::int64_t extent = g.dims[n.which[2]].extent > 0 ? g.dims[n.which[2]].extent : 1;
  dim_map m;
  m.from = n.which[0];
  m.to = n.which[shards_minor ? 2 : 1];
  m.window = n.which[shards_minor ? 1 : 2];
  m.stride = shards_minor ? 1 : extent;
  m.dilation = shards_minor ? extent : 1;
  n.code = op::windows;
  n.first_map = narrowed(g.maps.size());
  n.maps = 1;
  g.maps.push_back(m);
}
/// A merge or a split as an exchange of elements.
constexpr void view_by_elements(graph& g, std::size_t v, bool shards_minor) {
  if (g.nodes[v].code == op::merge) merge_by_elements(g, v);
  else split_by_elements(g, v, shards_minor);
}

/// Blocks of the whole dim are whole rows of the minor one if the major dim divides evenly; or, if the first axes have
/// just one device for each index of the major dim, blocks of the minor one, if that divides evenly over the others.
/// Known for fixed sizes, or promised.
constexpr view_parts parts_of_view(const graph& g, const node& n, axis_list whole) {
  const view_dims dims = dims_of_view(n);
  const dim_info &major = g.dims[dims.major], &minor = g.dims[dims.minor];
  const auto divides = [&](const dim_info& d, axis_list list) {
    if (list.empty() || d.divisible) return true;
    if (!d.blocks.empty()) return false;
    const std::int64_t devices = devices_of(g, list);
    return d.extent != dynamic && devices != dynamic && d.extent % devices == 0;
  };
  for (int kept = g.dims[dims.whole].blocks.empty() ? whole.size() : 0; kept > 0; --kept) {
    const axis_list list = whole.prefix(kept);
    const bool exact = kept == whole.size();
    if (divides(major, list)) return {list, {}, exact};
    for (int cut = 0; cut < kept; ++cut)
      if ((cut == 0 || major.blocks.empty()) && major.extent != dynamic &&
          major.extent == devices_of(g, list.prefix(cut)) && divides(minor, list.without(cut)))
        return {list.prefix(cut), list.without(cut), exact};
  }
  return {{}, {}, whole.empty()};
}

/// The same elements under other dims. The major part of a split or merged dim carries the whole dim's factor; blocks
/// of the minor part follow from it.
constexpr void factors_of_view(const graph& g, const node& n, factor_list& list) {
  const tensor_type& from = operand_type(g, n, 0);
  for (int i = 0; i < n.type.rank; ++i) {
    factor f;
    f.at[in_result] = narrowed(i);
    const dim_id d = n.type[i];
    if (n.code == op::rename) {
      f.at[0] = position_of(from, d == n.which[1] ? n.which[0] : d);
    } else if (const view_dims dims = dims_of_view(n); n.code == op::split) {
      if (d != dims.minor) f.at[0] = position_of(from, d == dims.major ? dims.whole : d);
      if (d == dims.major) f.minor = narrowed(i + 1), f.minor_in_result = true;
    } else {
      f.at[0] = position_of(from, d == dims.whole ? dims.major : d);
      if (d == dims.whole) f.minor = position_of(from, dims.minor);
    }
    list.push_back(f);
  }
}

constexpr std::uint32_t traits_of_view(const node& n) {
  return renames(n.code) ? planner::transparent | planner::fixed_strategy : std::uint32_t{planner::regroups};
}

inline constexpr op_rules view{
    .what = op_class::view,
    .adjoint = &detail::adjoint_of_view,
    .factors = &factors_of_view,
    .parts = &parts_of_view,
    .traits = planner::special,
    .traits_of = &traits_of_view,
};

}}} // namespace cleave::v0::rules
