// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/regions.hpp>
#include <cleave/program/step.hpp>

#include <utility>

// Halos that each device computes instead of fetching them (temporal blocking): the halos of their operands are wider
// for that. docs/21-stencils.md.

namespace cleave { inline namespace v0 { namespace lowering {

/// The operands from which the halo of a region is computed.
class halo_computation {
 public:
  constexpr halo_computation(const assigned_graph& in, shared_regions& found, std::size_t region)
      : in_(in), found_(found), region_(region), along_(dims_of(shape())) {}

  /// Finds the regions and values that are needed; false: the halo is fetched.
  constexpr bool find() {
    const shared_region& r = found_.all[region_];
    for (const dim_map& m : shape().maps)
      if (m.outside != border::periodic && m.outside != border::zero) return false;
    const node_id operand = named(r.operand, shape().taken);
    return fetched_over(shape()) != 0 && is_computed(operand, shape().taken) && express(operand) && fits();
  }
  /// Widens the regions that are read, or adds them.
  constexpr void apply() {
    const region_shape around = shape();
    for (const needed& n : needs_) {
      const std::size_t r = n.region == new_region ? found_.all.size() : n.region;
      if (n.region == new_region) found_.all.push_back({n.operand, alone(n)});
      widen(found_.all[r].shape, around, n.reads);
      found_.all[r].halo = true;
      found_.all[region_].needs.push_back(r);
    }
    found_.all[region_].constants = constants_;
    found_.all[region_].computed = true;
  }

 private:
  static constexpr std::size_t new_region = ~std::size_t{0};
  /// A region of an operand in a layout: its number, or a new one.
  struct needed {
    std::size_t region;
    node_id operand;
    layout where;
    /// How far from an index it is read: as the maps of a region, which reach the index itself.
    static_vector<dim_map, 3> reads{};
  };

  constexpr const region_shape& shape() const { return found_.all[region_].shape; }
  /// Whether a node is only another name for its operand, which is computed in the layout in which it is read.
  constexpr bool is_name(node_id u, const layout& want) const {
    const node& n = in_.node_at(u);
    return class_of(n.code) == op_class::annotation && in_.chosen[n.in[0]].out == want;
  }
  constexpr node_id named(node_id u, const layout& want) const {
    while (is_name(u, want)) u = in_.node_at(u).in[0];
    return u;
  }
  /// Whether a node is computed element by element, in the layout in which it is read, and as often as the halo. An
  /// update of an array is not.
  constexpr bool is_computed(node_id u, const layout& want) const {
    const node& n = in_.node_at(u);
    return is_elementwise(n.code) && !rules::puts_update(in_.g, n) && in_.chosen[u].out == want &&
           n.loop == in_.node_at(found_.all[region_].operand).loop;
  }
  /// Whether a node is made of indices, literals and extents alone: every reader makes it, in a loop too.
  constexpr bool is_free(node_id u) const {
    const node& n = in_.node_at(u);
    if (n.arity == 0) return rules::is_made_everywhere(n);
    if (!is_elementwise(n.code)) return false;
    for (std::size_t k = 0; k < n.arity; ++k)
      if (!is_free(n.in[k])) return false;
    return true;
  }
  /// The only halo around a value in a layout; new_region: there is none. false: there are several.
  constexpr bool find_halo(node_id operand, const layout& where, std::size_t& found) const {
    found = new_region;
    for (std::size_t r = 0; r < found_.all.size(); ++r) {
      const shared_region& other = found_.all[r];
      if (named(other.operand, where) != named(operand, where) || other.shape.taken != where || !other.halo) continue;
      if (found != new_region) return false;
      found = r;
    }
    return true;
  }
  constexpr region_shape alone(const needed& n) const {
    region_shape r;
    r.type = in_.node_at(n.operand).type;
    r.taken = r.made = n.where;
    return r;
  }
  /// Whether the elements around the computed halo can be read in another region.
  constexpr bool may_widen(const region_shape& other, const static_vector<dim_map, 3>& reads) const {
    std::size_t added = 0;
    for (const dim_map& m : shape().maps) {
      if (!other.type.has(m.from)) continue;
      bool known = false;
      for (const dim_map& have : other.maps) {
        if (have.from != m.from) continue;
        known = true;
        if (m.outside == border::periodic && have.outside != border::periodic) return false;
      }
      added += known ? 0 : 1;
    }
    if (other.maps.size() + added > other.maps.capacity()) return false;
    region_shape wide = other;
    widen(wide, shape(), reads);
    for (const dim_map& m : wide.maps)
      if (m.dilation > widest_shared_region) return false;
    return true;
  }
  /// Widens a region by the elements of it that are read around another one. Both reach the block: a part next to it
  /// along one dim has the block along others.
  constexpr static void widen(region_shape& r, const region_shape& around, const static_vector<dim_map, 3>& reads) {
    for (dim_map& have : r.maps) have = including_block(have);
    for (const dim_map& given : around.maps) {
      if (!r.type.has(given.from)) continue;
      dim_map m = including_block(given);
      for (const dim_map& read : reads)
        if (read.from == m.from) m.offset.constant += read.offset.constant, m.dilation += read.dilation;
      unite_along(r.maps, m);
    }
    r.parts = all_region_parts;
    r.parts = halo_parts(r);
  }
  /// Lets the map of a dim reach as far as another one, or adds that.
  constexpr static void unite_along(static_vector<dim_map, 3>& maps, const dim_map& m) {
    for (dim_map& have : maps)
      if (have.from == m.from) return reach_as_far(have, m);
    maps.push_back(m);
  }
  /// Notes that the operand of a region is read: by a node that reads neighbours, or itself.
  constexpr bool need(std::size_t region, node_id operand, const layout& where, const node* neighbours) {
    std::size_t at = 0;
    while (at < needs_.size() && (needs_[at].operand != operand || needs_[at].where != where)) ++at;
    if (at == needs_.size()) {
      needs_.push_back({region, operand, where});
      ++loads_;
    }
    needed& n = needs_[at];
    if (n.region != region) return false;
    if (neighbours != nullptr)
      for (dim_map m : maps_of(in_.g, *neighbours)) {
        m.dilation = 0;
        unite_along(n.reads, including_block(m));
      }
    return may_widen(region == new_region ? alone(n) : found_.all[region].shape, n.reads);
  }

  /// Reads a node where the halo is computed.
  constexpr bool read(node_id u, const layout& want) {
    const node& n = in_.node_at(u);
    for (node_id known : seen_)
      if (known == u) return true;
    seen_.push_back(u);
    if (n.arity == 0 && rules::is_made_everywhere(n)) {
      indices_ += rules::is_index(n) ? 1 : 0;
      return true;
    }
    if (is_name(u, want)) return read(n.in[0], want);
    if ((n.type.set() & along_) == 0) {
      // Numbers are there as long as the shard is computed from them.
      if (n.type.rank > 0) constants_.push_back({u, want});
      ++loads_;
      return true;
    }
    if (in_.chosen[u].out == want && is_free(u)) return express(u);
    ++loads_;
    if (const std::size_t r = found_.of_node[u]; r != 0) {
      const shared_region& q = found_.all[r - 1];
      std::size_t only = 0;
      return q.halo && in_.chosen[u].out == want && find_halo(q.operand, q.shape.taken, only) && only == r - 1 &&
             need(only, q.operand, q.shape.taken, &n);
    }
    std::size_t around = 0;
    if (!find_halo(u, want, around)) return false;
    if (around == new_region && is_computed(u, want)) {
      --loads_;
      return express(u);
    }
    return want.unreduced() == 0 && need(around, u, want, nullptr);
  }
  constexpr bool express(node_id u) {
    const node& n = in_.node_at(u);
    for (std::size_t k = 0; k < n.arity; ++k)
      if (!read(n.in[k], required(n, in_.factors[u], in_.chosen[u], static_cast<int>(k)))) return false;
    return true;
  }
  /// Whether one step can hold it.
  constexpr bool fits() const {
    return loads_ <= max_operands && indices_ <= max_indices && needs_.size() + constants_.size() < as_size(max_arity);
  }

  const assigned_graph& in_;
  shared_regions& found_;
  std::size_t region_;
  dim_set along_;
  indexed_vector<node_id> seen_{};
  indexed_vector<needed> needs_{};
  indexed_vector<std::pair<node_id, layout>> constants_{};
  std::size_t loads_ = 0;
  int indices_ = 0;
};

/// Decides which halos are computed: those of values that ask for it. From the last value to the first, since the halo
/// of a value is as wide as those that are computed from it need.
constexpr void find_computed_halos(const assigned_graph& in, shared_regions& found) {
  const node* nodes = in.g.nodes.data();
  for (std::size_t v = found.all.empty() ? 0 : in.g.nodes.size(); v-- > 0;) {
    if (!nodes[v].computes_halo) continue;
    for (std::size_t r = 0; r < found.all.size(); ++r) {
      if (found.all[r].operand != v || !found.all[r].halo) continue;
      // Not in the condition: nvcc 13.0 loses an object that is declared there.
      halo_computation c(in, found, r);
      if (c.find()) c.apply();
    }
  }
}

}}} // namespace cleave::v0::lowering
