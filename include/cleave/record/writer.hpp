// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/record/value.hpp>

#include <utility>

namespace cleave { inline namespace v0 {

/// A graph while it is written: gives ids to names, resolves layouts, holds extents together, and keeps the first
/// fault.
class graph_writer {
 public:
  constexpr explicit graph_writer(const mesh_value& mesh) {
    made_.mesh = mesh;
    // The nodes of ordinary programs: to move them when there are more costs as much as to record them.
    made_.nodes.reserve(1024);
  }
  graph_writer(const graph_writer&) = delete;
  graph_writer& operator=(const graph_writer&) = delete;

  constexpr const graph& made() const { return made_; }
  constexpr graph take() { return std::move(made_); }

  /// Nodes recorded from here on are part of the derivative of an operation: faults and plans name that one. Returns
  /// the previous origin.
  struct origin {
    op code = op::input;
    bool gradient = false;
  };
  constexpr origin derive(origin from) {
    const origin before = origin_;
    origin_ = from;
    return before;
  }

  /// A line that all new nodes get. It may be unknown, as that of a statement. And the function that stands there, if
  /// faults are to name it.
  struct caller {
    source where{};
    bool given = false;
    std::string_view name{};
  };
  /// From here on, new nodes get this line, until another one is given. Returns the one before.
  constexpr caller say_at(caller from) {
    const caller before = caller_;
    caller_ = from;
    return before;
  }

  /// Notes that two dims have one extent, as those of a square matrix: a fault if fixed extents differ, and a
  /// shape_error naming a dim at the first call if others do.
  constexpr bool same_extent(dim_ref a, dim_ref b, std::string_view op, source where) {
    const int first = intern(a, op, where), second = first < 0 ? -1 : intern(b, op, where);
    return second >= 0 && relate({narrowed(first), narrowed(second), no_dim}, op, where);
  }

  /// Notes the first fault.
  constexpr void refuse(fault what, std::string_view op, source where, std::string_view dim = {},
                        std::string_view axis = {}, std::int64_t expected = 0, std::int64_t got = 0) {
    if (!made_.found.ok()) return;
    if (!caller_.name.empty()) op = caller_.name;
    if (dim == refused_dim.view()) what = fault::already_reported;
    made_.found = {what, said_at(where),  origin_.gradient ? name_of(origin_.code) : op, dim, axis, expected,
                   got,  origin_.gradient};
  }
  /// The same of an operation whose operands determine the proposed repairs.
  constexpr void refuse_node(const node& n, fault what, std::string_view dim, std::string_view axis = {}) {
    if (made_.found.ok()) made_.refused.push_back(n);
    refuse(what, name_of(n), n.where, dim, axis);
  }

 protected:
  /// A value that the user pinned as unreduced may only be used where its reduction commutes; implicitly reducing it
  /// would undo the pin.
  constexpr bool passes_partials(const node& n) {
    std::uint8_t partial = 0;
    axis_set axes = 0;
    reduction how = reduction::sum;
    element of = element::none;
    const node* nodes = made_.nodes.data();
    for (int k = 0; k < n.arity; ++k) {
      node_id u = n.in.items[k];
      while (nodes[u].code == op::identity || nodes[u].code == op::stop_gradient) u = nodes[u].in.items[0];
      const node& from = nodes[u];
      if ((from.code != op::input && from.code != op::reshard) || !from.pin.is_partial()) continue;
      partial = narrowed(partial | 1u << k);
      axes = axes | from.pin.unreduced();
      how = from.pin.combine();
      of = from.type.element;
    }
    if (partial == 0) return true;
    const reduction through = n.code == op::reduce ? n.combine : reduction::sum;
    if (partial_operands_of(n, of, partial) != 0 && how == through) return true;
    int a = 0;
    while ((axes >> a & 1) == 0) ++a;
    refuse_node(n, fault::unreduced_into_nonlinear, {}, made_.mesh.axes[a].name);
    return false;
  }

  /// Checks that operands broadcast to the type of an elementwise node, which is that of the widest. In the outer form
  /// adds the dims that the node lacks. False after a fault.
  constexpr bool broadcasts(node& n, const tensor_type* const* types, int widest, bool outer) {
    for (int k = 0; k < n.arity; ++k)
      for (int i = 0; k != widest && i < types[k]->rank; ++i) {
        const dim_id d = types[k]->dims.items[i];
        if (n.type.has(d)) continue;
        if (!outer) {
          refuse_node(n, fault::dims_do_not_broadcast, made_.dims[d].name);
          return false;
        }
        if (n.type.rank == max_rank) {
          refuse(fault::rank_too_high, name_of(n.code), n.where);
          return false;
        }
        n.type.append(d);
      }
    return true;
  }
  /// Sets the element type of an elementwise node that computes in `type`; `asked` is that of a cast. False after a
  /// fault.
  constexpr bool give_element(node& n, element type, element asked) {
    const std::uint16_t traits = entry_of(n.code).traits;
    n.type.element = asked != element::none ? asked : type;
    if ((traits & op_traits::to_bool) != 0) n.type.element = element::boolean;
    if ((traits & op_traits::to_real) != 0) n.type.element = real_of(type);
    if ((traits & op_traits::to_complex) != 0) {
      if (type != element::f32 && type != element::f64) {
        refuse(fault::complex_parts, name_of(n.code), n.where);
        return false;
      }
      n.type.element = type == element::f32 ? element::c64 : element::c128;
    }
    if ((traits & op_traits::needs_fractions) != 0 && (is_integer(type) || type == element::boolean)) {
      refuse(fault::not_floating, name_of(n.code), n.where);
      return false;
    }
    // No part is dropped silently: a cast does not make complex numbers real.
    const bool drops_part = asked != element::none && !is_complex(asked);
    if (is_complex(type) && ((traits & op_traits::complex_too) == 0 || drops_part)) {
      refuse(fault::not_for_complex, name_of(n.code), n.where);
      return false;
    }
    return true;
  }

  /// Notes whole = major * minor and checks it if the extents are fixed.
  constexpr bool relate(const dim_product& p, std::string_view op, source where) {
    for (const dim_product& known : made_.rules.products)
      if (known == p) return true;
    std::int64_t one = 1;
    std::int64_t &whole = made_.dims[p[0]].extent, &major = made_.dims[p[1]].extent;
    std::int64_t& minor = p[2] == no_dim ? one : made_.dims[p[2]].extent;
    if (whole == dynamic && major != dynamic && minor != dynamic) whole = major * minor;
    if (major == dynamic && whole != dynamic && minor > 0 && whole % minor == 0) major = whole / minor;
    if (minor == dynamic && whole != dynamic && major > 0 && whole % major == 0) minor = whole / major;
    if (whole != dynamic && major != dynamic && minor != dynamic && whole != major * minor) {
      refuse(fault::extents_differ, op, where, made_.dims[p[0]].name, {}, whole, major * minor);
      return false;
    }
    if (made_.rules.products.full()) {
      refuse(fault::too_many_views, op, where, made_.dims[p[0]].name);
      return false;
    }
    made_.rules.products.push_back(p);
    return true;
  }

  /// Notes an extent that follows from others, and checks it if all are fixed.
  constexpr bool follows(const derived_extent& rule, std::string_view op, source where) {
    dim_info& info = made_.dims[rule.dim];
    sizes fixed;
    for (std::size_t d = 0; d < made_.dims.size(); ++d) fixed.dims[d] = made_.dims[d].extent;
    if (const std::int64_t extent = extent_of(rule, fixed); extent != dynamic) {
      if (info.extent == dynamic) info.extent = extent;
      if (info.extent == extent) return true;
      refuse(fault::extents_differ, op, where, info.name, {}, extent, info.extent);
      return false;
    }
    for (const derived_extent& known : made_.rules.derived)
      if (known == rule) return true;
    if (made_.rules.derived.full()) {
      refuse(fault::too_many_views, op, where, info.name);
      return false;
    }
    made_.rules.derived.push_back(rule);
    return true;
  }

  /// Notes that a dim must not be shorter.
  constexpr bool at_least(const least_extent& rule, std::string_view op, source where) {
    for (least_extent& known : made_.rules.least)
      if (known.dim == rule.dim && known.may_be_empty == rule.may_be_empty && known.other == rule.other &&
          known.times == rule.times && known.other_times == rule.other_times) {
        known.least = std::max(known.least, rule.least);
        return true;
      }
    if (made_.rules.least.full()) {
      refuse(fault::too_many_views, op, where, made_.dims[rule.dim].name);
      return false;
    }
    made_.rules.least.push_back(rule);
    return true;
  }

  /// The id of a dim, new or known; -1 after a fault.
  constexpr int intern(dim_ref d, std::string_view op, source where) {
    const int known = made_.find_dim(d.name);
    if (known >= 0) {
      dim_info& info = made_.dims[known];
      if (info.extent == dynamic) info.extent = d.extent;
      info.divisible = info.divisible || d.divisible;
      if (d.extent != dynamic && d.extent != info.extent) {
        refuse(fault::extents_differ, op, where, d.name, {}, info.extent, d.extent);
        return -1;
      }
      if (d.blocks != info.blocks) {
        refuse(fault::blocks_differ, op, where, d.name);
        return -1;
      }
      return known;
    }
    if (made_.dims.full()) {
      refuse(fault::too_many_dims, op, where, d.name);
      return -1;
    }
    made_.dims.push_back({d.name, d.extent, d.divisible, d.blocks});
    return as_int(made_.dims.size() - 1);
  }

  /// Turns names into axis lists by position. False after a fault.
  constexpr bool resolve(const spec& s, const tensor_type& t, std::string_view op, source where, layout& l,
                         std::uint8_t& pinned) {
    if (!s.well_formed) {
      refuse(fault::already_reported, op, where);
      return false;
    }
    if (s.mesh != made_.mesh) {
      refuse(fault::meshes_differ, op, where);
      return false;
    }
    axis_set used = 0;
    for (const placement& p : s.dims) {
      const int d = made_.find_dim(p.dim.name);
      const int i = d < 0 ? -1 : t.find(d);
      if (i < 0) {
        refuse(fault::dim_missing, op, where, p.dim.name);
        return false;
      }
      if ((pinned >> i & 1) != 0) {
        refuse(fault::dim_used_twice, op, where, p.dim.name);
        return false;
      }
      pinned = narrowed(pinned | 1u << i);
      for (std::string_view name : p.axes) {
        if (!use(name, used, op, where, p.dim.name)) return false;
        l.append(i, made_.mesh.find(name));
      }
    }
    if (!s.unreduced.empty() && s.combine == reduction::logsumexp && !is_floating(t.element)) {
      refuse(fault::not_floating, name_of(s.combine), where);
      return false;
    }
    for (std::string_view name : s.unreduced) {
      if (!use(name, used, op, where, {})) return false;
      l.set_partial(l.unreduced() | axis_bit(made_.mesh.find(name)), s.combine);
    }
    return true;
  }

  constexpr bool use(std::string_view axis, axis_set& used, std::string_view op, source where, std::string_view dim) {
    const int a = made_.mesh.find(axis);
    if (a < 0) {
      refuse(fault::axis_not_in_mesh, op, where, dim, axis);
      return false;
    }
    if ((used & axis_bit(a)) != 0) {
      refuse(fault::axis_used_twice, op, where, dim, axis);
      return false;
    }
    used = used | axis_bit(a);
    return true;
  }

  constexpr source said_at(source where) const { return caller_.given ? caller_.where : where; }

  graph made_{};
  origin origin_{};
  caller caller_{};
};

/// A region of the graph with a derivative of its own: nodes from `first` to before `last`.
struct special_region {
  /// Records the cotangents of the arguments from the residuals and the cotangents of the results.
  using backward_rule = optional_function<indexed_vector<value>(indexed_span<const value> residuals,
                                                                indexed_span<const value> cotangents)>;

  node_id first = 0;
  node_id last = 0;
  /// The loop in which it was recorded.
  std::uint8_t loop = 0;
  /// If it is not given and nothing was recorded ahead, the region is recorded again for the backward pass, instead of
  /// keeping its values.
  backward_rule backward{};
  indexed_vector<value> arguments{};
  indexed_vector<value> results{};
  indexed_vector<value> residuals{};
  /// In place of a rule: the cotangents of the arguments, recorded from node `ahead` on for stand-ins of those of the
  /// results.
  node_id ahead = 0;
  indexed_vector<value> stand_ins{};
  indexed_vector<value> cotangents{};

  constexpr bool own_derivative() const { return backward.given || !cotangents.empty(); }
};

}} // namespace cleave::v0
