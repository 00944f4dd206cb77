// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/cost/exchange.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/remap_adjoint.hpp>
#include <cleave/rules/reverse_context.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace detail {

/// Records remaps of one operand: collects maps, and the dims of the result.
class remapping {
 public:
  constexpr remapping(op code, const operand& x) : in_(x.from.in), code_(code), where_(x.where), args_{x.from} {
    if (x.from.ok()) given_ = type_ = in_->at(x.from).type;
    else failed_ = true;
  }

  /// The map of a dim of the operand to one of the result, to be completed; null after a fault.
  constexpr dim_map* along(dim_ref from, dim_ref to) {
    if (failed_) return nullptr;
    const int f = in_->dim_of(args_[0], from, name_of(code_), where_);
    if (f < 0) return fail();
    // One map along each dim: a second one would not know which of the two indices is its own.
    for (const dim_map& m : maps_)
      if (m.from == f) return fail(fault::dim_used_twice, from.name);
    const int t = in_->dim(to, name_of(code_), where_);
    if (t < 0) return fail();
    if (f != t && has(t)) return fail(fault::dim_used_twice, to.name);
    type_.dims[type_.find(f)] = narrowed(t);
    dim_map m;
    m.from = narrowed(f);
    m.to = narrowed(t);
    maps_.push_back(m);
    return &maps_.back();
  }
  constexpr dim_map* fail(fault what, std::string_view dim) {
    in_->refuse(what, name_of(code_), where_, dim);
    return fail();
  }
  /// The fault has been reported.
  constexpr dim_map* fail() {
    failed_ = true;
    return nullptr;
  }
  constexpr void extent(dim_id dim, const extent_sum& sum, std::int64_t divisor = 1) {
    if (!in_->extent_follows({dim, sum, divisor}, name_of(code_), where_)) failed_ = true;
  }
  /// Notes that a dim must reach as far as two indices that may count from its end. Calls with a shorter one are
  /// refused.
  constexpr void reaches(dim_id dim, std::int64_t a, std::int64_t b) {
    const std::int64_t least = std::max(a < 0 ? -a : a, b < 0 ? -b : b);
    if (least > 0 && !in_->extent_at_least({dim, least}, name_of(code_), where_)) failed_ = true;
  }
  /// Whether a dim is one of the result so far, or of the operand, in which a new dim would not be told from it.
  constexpr bool has(int d) const { return type_.has(d) || given_.has(d); }
  constexpr void add_operand(value v) { args_.push_back(v); }
  constexpr bool failed() const { return failed_; }
  /// The extent of a dim if its type has it; unknown for no_dim: g++ warns about that if it cannot see that a map has
  /// dims.
  constexpr std::int64_t fixed(dim_id d) const { return d == no_dim ? dynamic : in_->made().dims[d].extent; }
  constexpr recorder& in() { return *in_; }
  constexpr source where() const { return where_; }
  tensor_type type_{};

  constexpr value record() {
    if (failed_) return {in_, no_node};
    return in_->remap(code_, indexed_span<const value>(args_.begin(), args_.size()),
                      indexed_span<const dim_map>(maps_.begin(), maps_.size()), type_, where_);
  }

 private:
  recorder* in_;
  op code_;
  source where_;
  tensor_type given_{};
  static_vector<value, max_arity> args_{};
  static_vector<dim_map, max_arity> maps_{};
  bool failed_ = false;
};

/// constant + times * extent.
constexpr extent_sum sum_of(std::int64_t constant, dim_id dim = no_dim, std::int64_t times = 1) {
  extent_sum s;
  s.constant = constant;
  if (dim != no_dim) s.terms.push_back({dim, times});
  return s;
}
/// An index that counts from the end if it is negative.
constexpr extent_sum index_from(std::int64_t index, dim_id dim) {
  return index < 0 ? sum_of(index, dim) : sum_of(index);
}
constexpr extent_sum minus(const extent_sum& a, const extent_sum& b, std::int64_t plus = 0) {
  extent_sum s = a;
  s.constant += plus - b.constant;
  for (const extent_sum::term& t : b.terms) {
    bool met = false;
    for (extent_sum::term& have : s.terms)
      if (have.dim == t.dim) have.times -= t.times, met = true;
    if (!met) s.terms.push_back({t.dim, -t.times});
  }
  extent_sum shorter;
  shorter.constant = s.constant;
  for (const extent_sum::term& t : s.terms)
    if (t.times != 0) shorter.terms.push_back(t);
  return shorter;
}

/// Element (i, i) of two dims, the first of which is kept.
constexpr value recorded_diagonal(recorder& in, value x, dim_id kept, dim_id gone, const tensor_type& result,
                                  source where) {
  if (!in.relate({kept, gone, no_dim}, "diagonal", where)) return {&in, no_node};
  std::array<dim_map, 2> maps{};
  maps[0].from = maps[0].to = maps[1].to = kept;
  maps[1].from = gone;
  return in.remap(op::diagonal, std::array{x}, maps, result, where);
}
/// A start index clamped so that as many elements as `part` has are within `whole`.
constexpr value clamped_start(recorder& in, value start, dim_id whole, dim_id part, std::string_view op, source where) {
  if (!start.ok()) return in.missing(op, where);
  element e = in.at(start).type.element;
  if (in.at(start).type.rank != 0 || !is_integer(e)) return in.fail(fault::not_a_start_index, op, where);
  const dim_info &from = in.made().dims[whole], &of = in.made().dims[part];
  if (from.extent != dynamic && from.extent < of.extent)
    return in.fail(fault::dim_too_short, op, where, from.name, {}, of.extent, from.extent);
  const bool is_fixed = of.extent != dynamic;
  if ((from.extent == dynamic || !is_fixed) && whole != part &&
      !in.extent_at_least({whole, is_fixed ? of.extent : 0, false, is_fixed ? no_dim : part}, op, where))
    return {&in, no_node};
  // Extents need not fit into the type of a short index.
  if (size_of(e) < size_of(element::i32)) start = in.elementwise(op::cast, std::array{start}, where, e = element::i32);
  const value last =
      in.elementwise(op::sub, std::array{in.count(dim_bit(whole), e, where), in.count(dim_bit(part), e, where)}, where);
  const value most = in.elementwise(op::minimum, std::array{start, last}, where);
  return in.elementwise(op::maximum, std::array{most, in.constant(0, e, where)}, where);
}

constexpr void adjoint_of_remap(reverse_context& c, std::size_t, const node& n, value g) {
  indexed_vector<value> operands;
  for (std::size_t k = 0; k < n.arity; ++k) operands.push_back(c.primal(n.in[k]));
  for (std::uint8_t k = 0; k < n.arity; ++k)
    if (c.depends(n.in[k])) c.add(n.in[k], remap_adjoint(c.in(), n, g, operands).by(k), n.where);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// Dims that a map names are sharded on both sides as each side likes; those of windows are whole; the others are
/// common.
constexpr void factors_of_remap(const graph& g, const node& n, factor_list& list) {
  dim_set mapped = 0;
  for (int m = 0; m < n.maps; ++m) {
    const dim_map& map = g.maps[as_size(n.first_map + m)];
    factor f;
    f.type = factor_type::permutation;
    f.at[map.operand] = position_of(operand_type(g, n, map.operand), map.from);
    if ((mapped & dim_bit(map.to)) == 0) f.at[in_result] = position_of(n.type, map.to);
    f.taken = narrowed(m);
    list.push_back(f);
    mapped |= dim_bit(map.to);
    if (map.window != no_dim) mapped |= dim_bit(map.window);
  }
  for (int i = 0; i < n.type.rank; ++i) {
    if ((mapped & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = narrowed(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
}
constexpr dim_set windows_of(const graph& g, const node& n) {
  dim_set set = 0;
  for (const dim_map& m : maps_of(g, n))
    if (m.window != no_dim) set |= dim_bit(m.window);
  return set;
}

constexpr exchange_part part_of(const placed_op& o, int k) {
  return part_of(o.maps, narrowed(k), *o.in[k].type, o.in[k].where, *o.out.type, o.out.where);
}
constexpr void place_exchange(const node&, const strategy&, placed_op& o) {
  unsigned over = 0;
  for (int k = 0; k < o.arity; ++k) over |= fetched_over(part_of(o, k));
  o.over = over;
}
constexpr cost moves_of_exchange(const placed_op& o, const sizes& s) {
  static_vector<exchange_part, max_arity> parts;
  for (int k = 0; k < o.arity; ++k) parts.push_back(part_of(o, k));
  return exchange_cost(indexed_span<const exchange_part>(parts.begin(), parts.end()), s);
}

/// The layouts in which the results of elementwise consumers of an exchange are needed, as layouts of the exchange:
/// elements that are sent anyway are sent to their final place.
constexpr void offer_where_wanted(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                                  indexed_vector<strategy>& list) {
  planner::position_map back = planner::same_positions;
  std::size_t u = v;
  for (int depth = 0; depth < m.limits.exchanged_through; ++depth) {
    if (m.first_edge.at[u + 1] - m.first_edge.at[u] != 1) return;
    const auto& reader = m.edges.at[m.first_edge.at[u]];
    const op_class what = class_of(m.node_at(reader.to).code);
    if (m.rank.at[reader.to] != m.rank.at[u] || (what != op_class::elementwise && what != op_class::view)) return;
    u = reader.to;
    back = planner::then_positions(m.from_result.at[reader.slot], back);
    const std::size_t copies = planner::find_copies(m, a, u, planner::produced(m, a, u));
    for (std::size_t i = 0; i < copies; ++i) {
      strategy s = a.chosen.at[v];
      s.out.word = planner::mapped(a.copies.at[i].word & layout::dims_mask, back);
      planner::fit(m, v, s);
      planner::add_with_forwarding(m, a, v, s, list);
    }
  }
}

/// Whether another reader has an operand as this node would need it, or the node itself reads it several times: then it
/// is moved once.
constexpr bool is_there_already(const planner::cost_model& m, const planner::assignment& a, std::size_t v, int k,
                                layout need) {
  const node& n = m.node_at(v);
  const node_id* const operands = m.operand.at + m.first_slot.at[v];
  const node_id u = operands[k];
  for (int other = 0; other < n.arity; ++other)
    if (other != k && operands[other] == u) return true;
  for (std::uint32_t e = m.first_edge.at[u]; e < m.first_edge.at[u + 1]; ++e)
    if (m.edges.at[e].to != v && planner::needed(m, a, m.edges.at[e]).word == need.word) return true;
  for (std::uint32_t result = m.last_output.at[u]; result != 0; result = m.other_output.at[result - 1])
    if (planner::asked_of(m, a, result - 1).word == need.word) return true;
  return false;
}

/// The strategies so far, with operands that are moved before, so that less is fetched, or nothing: sharded as the
/// result is along the dims that maps name; as they are taken now; or whole along them, if another reader has them so.
constexpr void offer_moved_operands(const planner::cost_model& m, const planner::assignment& a, std::size_t v,
                                    indexed_vector<strategy>& list) {
  const node_factors factors = m.factors(v);
  const std::size_t count = list.size();
  for (std::size_t i = 0; i < count; ++i) {
    strategy like_result = list[i], whole = list[i], as_now = list[i];
    planner::fetch_like_result(m, v, like_result);
    as_now.taken = a.chosen.at[v].taken;
    for (const factor& f : factors) {
      if (!f.is_fetched()) continue;
      for (int k = 0; k < m.node_at(v).arity; ++k) {
        if (f.at[k] < 0) continue;
        layout need = planner::required(m, v, list[i], k);
        need.clear(f.at[k]);
        if (is_there_already(m, a, v, k, need)) whole.taken.set(f.taken, {});
      }
    }
    for (const strategy& s : {like_result, whole, as_now})
      if (!(s.taken == list[i].taken) && planner::valid(m, v, s)) list.push_back(s);
  }
}
/// The axes of the dims that maps name may be moved to another dim before, so that nothing is fetched.
constexpr void offer_axes_elsewhere(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                                    indexed_vector<strategy>& list) {
  strategy s = a.chosen.at[v];
  const node& n = m.node_at(v);
  const node_factors factors = m.factors(v);
  axis_list axes;
  unsigned mapped = 0;
  for (const factor& f : factors) {
    if (!f.is_fetched()) continue;
    if (f.at[in_result] >= 0) s.out.clear(f.at[in_result]), mapped |= 1u << f.at[in_result];
    for (int k = 0; k < n.arity; ++k) {
      if (f.at[k] < 0 || (m.traits.at[n.in[k]] & planner::rematerialised) != 0) continue;
      const axis_list own = planner::produced(m, a, n.in[k])[f.at[k]];
      for (int j = 0; j < own.size(); ++j)
        if (!axes.contains(own[j])) axes.push_back(own[j]);
    }
  }
  for (int j = 0; j < axes.size(); ++j)
    if ((s.out.used() >> axes[j] & 1) != 0) return;
  if (axes.empty()) return;
  for (int i = 0; i < n.type.rank; ++i) {
    if ((mapped >> i & 1) != 0 || m.at[n.type[i]] < m.at.axes.product(s.out[i].then(axes))) continue;
    strategy t = s;
    t.out.set(i, s.out[i].then(axes));
    planner::add_with_forwarding(m, a, v, t, list);
  }
}

/// Dims that are short, or read whole, may be fetched whole at once.
constexpr void offer_exchanges(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                               indexed_vector<strategy>& list) {
  if (m.node_at(v).maps == 0) return;
  if (a.looks_further) offer_where_wanted(m, a, v, list);
  strategy s = a.chosen.at[v];
  const node_factors factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i)
    if (factors.items[i].is_fetched() && factors.items[i].at[in_result] >= 0)
      s.out.clear(factors.items[i].at[in_result]);
  planner::add_with_forwarding(m, a, v, s, list);
  if (!a.looks_further) return;
  offer_axes_elsewhere(m, a, v, list);
  offer_moved_operands(m, a, v, list);
}

/// Whether a node reads each dim of its operand at a fixed distance, so that it reads a shard and a halo.
constexpr bool reads_neighbours(const graph& g, const node& n) {
  if (class_of(n.code) != op_class::remap || n.arity != 1 || n.maps > 3) return false;
  const tensor_type& from = g.nodes[n.in[0]].type;
  dim_set seen = 0;
  for (const dim_map& m : maps_of(g, n)) {
    if (m.divisor != 1 || m.stride < 1 || m.at_run_time != 0 || !m.offset.terms.empty() || (seen & dim_bit(m.to)) != 0)
      return false;
    if (m.window != no_dim ? from.has(m.window) : m.stride != 1) return false;
    seen |= dim_bit(m.to);
  }
  return true;
}

constexpr void emit_exchange(const node& n, const placed_op&, step& s) {
  s.first_map = n.first_map;
  s.maps = n.maps;
}

inline constexpr op_rules remap{
    .what = op_class::remap,
    .adjoint = &detail::adjoint_of_remap,
    .factors = &factors_of_remap,
    .whole_dims = &windows_of,
    .reads_any_order = true,
    .traits = planner::special | planner::remaps | planner::fetches_operands,
    .place = &place_exchange,
    .moves = &moves_of_exchange,
    .remembered = true,
    .offer = &offer_exchanges,
    .emit = &emit_exchange,
    .kind_of_step = step_kind::exchange,
    .collective = kind::exchange,
    .reason = "each device fetches what it lacks",
};

}}} // namespace cleave::v0::rules
