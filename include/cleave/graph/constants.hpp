// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/graph/compose_maps.hpp>
#include <cleave/graph/permutes.hpp>

#include <bit>
#include <cstdint>
#include <optional>

// Operations of a graph that give the same number everywhere, whatever their operands.

namespace cleave { inline namespace v0 { namespace detail {

/// The dims of this extent.
constexpr dim_set dims_of_extent(const graph& g, std::int64_t extent) {
  std::uint64_t found = 0;
  for (std::size_t d = 0; d < g.dims.count; ++d)
    if (g.dims.items[d].extent == extent) found |= std::uint64_t{1} << d;
  return found;
}
/// Whether an operation computes no elements: an extent of its result is 0. It reads nothing, so that zeros along its
/// dims are the same.
constexpr bool takes_nothing(const node& n, dim_set empty) {
  if (empty == 0 || n.loop != 0 || n.pinned != 0 || is_complex(n.type.element)) return false;
  const bool computes = n.maps != 0 || n.code == op::dot || n.code == op::reduce ||
                        (computes_elements[underlying(n.code)] && n.code != op::broadcast);
  return computes && (n.type.set() & empty) != 0;
}
/// Whether an operation runs along a dim of one index, so that there is nothing to add up and nothing to sort.
constexpr bool runs_over_one(const graph& g, const node& n) {
  return (n.code == op::cumulative || n.code == op::sort) && g.dims[n.which[0]].extent == 1;
}
/// The number that a value is everywhere, if it is a constant.
constexpr std::optional<double> constant_of(const graph& g, node_id v) {
  while (g.nodes[v].code == op::broadcast) v = g.nodes[v].in[0];
  return g.nodes[v].code == op::constant ? std::optional<double>(g.nodes[v].scalar) : std::nullopt;
}
/// By its bits: -0 is not 0.
constexpr bool is_the_number(const graph& g, node_id v, double number) {
  const std::optional<double> known = constant_of(g, v);
  return known && std::bit_cast<std::uint64_t>(*known) == std::bit_cast<std::uint64_t>(number);
}
/// Lets an elementwise operation read the operand of a reduction along dims of one index, if it has these dims itself.
constexpr void read_unreduced(const graph& g, node& n, dim_set ones) {
  if (n.loop != 0 || !computes_elements[underlying(n.code)] || n.code == op::broadcast) return;
  for (int k = 0; k < n.arity; ++k) {
    const node& u = g.nodes[n.in[k]];
    if (u.code != op::reduce || u.loop != 0 || u.combine == reduction::logsumexp || (u.over & ~ones) != 0) continue;
    const tensor_type& whole = g.nodes[u.in[0]].type;
    if (whole.element == u.type.element && (whole.set() & ~n.type.set()) == 0) n.in[k] = u.in[0];
  }
}
/// The result of an operation if it follows from constants and from dims of one index: their index is 0, all numbers
/// are equal to others or not, a choice by a constant, an extremum of equal numbers.
constexpr std::optional<double> follows_from_one_index(const graph& g, const node& n, dim_set ones) {
  if (ones == 0 || n.loop != 0 || is_complex(n.type.element)) return std::nullopt;
  switch (n.code) {
    case op::iota:
    case op::argsort: return (dim_bit(n.which[0]) & ones) != 0 ? std::optional<double>(0) : std::nullopt;
    case op::logical_or: {
      const node &a = g.nodes[n.in[0]], &b = g.nodes[n.in[1]];
      const bool all = a.code == op::equal && b.code == op::not_equal && a.in[0] == b.in[0] && a.in[1] == b.in[1] &&
                       a.in[0] == a.in[1];
      return all ? std::optional<double>(1) : std::nullopt;
    }
    case op::select: {
      const auto holds = constant_of(g, n.in[0]);
      return holds ? constant_of(g, n.in[*holds != 0 ? 1 : 2]) : std::nullopt;
    }
    case op::reduce:
      return (n.over & ~ones) == 0 && n.combine != reduction::logsumexp ? constant_of(g, n.in[0]) : std::nullopt;
    default: return std::nullopt;
  }
}
/// Whether a value is the negative of another.
constexpr bool is_negative_of(const graph& g, node_id v, node_id other) {
  const node& n = g.nodes[v];
  if (n.code == op::neg) return n.in[0] == other;
  return n.code == op::sub && n.in[1] == other && is_the_number(g, n.in[0], 0);
}
/// The result of an operation on two integers if they are always equal, or add up to 0; of floating-point numbers, one
/// may be NaN.
constexpr std::optional<double> same_of_equal_integers(const graph& g, const node& n) {
  const element e = g.nodes[n.in[0]].type.element;
  if (n.loop != 0 || (!is_integer(e) && e != element::boolean)) return std::nullopt;
  // A predicate and its negative are both true, and so is their sum.
  if (n.code == op::add)
    return e != element::boolean && (is_negative_of(g, n.in[0], n.in[1]) || is_negative_of(g, n.in[1], n.in[0]))
               ? std::optional<double>(0)
               : std::nullopt;
  if (n.in[0] != n.in[1]) return std::nullopt;
  switch (n.code) {
    case op::sub:
    case op::not_equal:
    case op::less:
    case op::greater: return 0;
    case op::equal:
    case op::less_equal:
    case op::greater_equal: return 1;
    default: return std::nullopt;
  }
}
/// Whether a remap takes all elements from beyond the borders of its operand, which are zeros.
constexpr bool takes_zeros_only(const graph& g, const node& n) {
  if (n.arity != 1 || n.loop != 0 || is_complex(n.type.element)) return false;
  for (const dim_map& m : maps_of(g, n)) {
    const auto from = fixed_extent(g, m.from), to = fixed_extent(g, m.to), offset = fixed_sum(g, m.offset);
    if (!from || !to || !offset || *to == 0 || m.window != no_dim || m.at_run_time != 0 || m.divisor != 1 ||
        m.outside != border::zero)
      continue;
    const std::int64_t first = *offset, last = m.stride * (*to - 1) + *offset;
    if ((first < 0 && last < 0) || (first >= *from && last >= *from)) return true;
  }
  return false;
}
/// The result of a reduction over nothing, if it is a number that double has.
constexpr std::optional<double> result_of_none(reduction how, element e) {
  const double lowest = lowest_of(e);
  switch (how) {
    case reduction::sum: return 0;
    case reduction::prod: return 1;
    case reduction::max: return lowest;
    case reduction::min:
      if (is_floating(e)) return -lowest;
      if (!is_integer(e) || size_of(e) == 8) return std::nullopt;
      return is_signed_integer(e) ? -lowest - 1 : static_cast<double>((std::int64_t{1} << 8 * size_of(e)) - 1);
    default: return std::nullopt;
  }
}
/// The number that an operation gives everywhere, whatever its operands; none if it depends on them.
constexpr std::optional<double> same_everywhere(const graph& g, const node& n, dim_set empty, dim_set ones) {
  if (const auto number = follows_from_one_index(g, n, ones)) return number;
  if (takes_nothing(n, empty) || (n.maps != 0 && takes_zeros_only(g, n))) return 0;
  if (n.arity == 2 && n.maps == 0 && n.code != op::cumulative) return same_of_equal_integers(g, n);
  // Before the only index there is nothing.
  if (n.code != op::cumulative || !n.exclusive || !runs_over_one(g, n) || n.loop != 0 || is_complex(n.type.element))
    return std::nullopt;
  return result_of_none(n.combine, n.type.element);
}
/// Appends the number that an operation gives everywhere, and makes of the operation a broadcast of it.
constexpr void become_constant(graph& to, node& n, double number) {
  node scalar;
  scalar.code = op::constant;
  scalar.scalar = number;
  scalar.type.element = n.type.element;
  scalar.where = n.where;
  scalar.origin = n.origin;
  scalar.gradient = n.gradient;
  if (n.type.rank == 0) {
    n = scalar;
    return;
  }
  node made = scalar;
  made.scalar = 0;
  made.code = op::broadcast;
  made.type = n.type;
  made.arity = 1;
  made.in[0] = narrowed(to.nodes.size());
  to.nodes.push_back(scalar);
  n = made;
}

}}} // namespace cleave::v0::detail
