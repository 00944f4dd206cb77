// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/rules/reverse_context.hpp>

#include <utility>

namespace cleave { inline namespace v0 { namespace detail {

/// Regions of a graph that the backward pass treats in a way of their own: those with their own derivative, and those
/// whose values are computed again instead of being kept.
class special_regions {
 public:
  constexpr explicit special_regions(reverse_context& c) : c_(c), in_(c.in()) {}

  /// Before node v is visited: enters the regions that end after it and are in a loop that is visited, and leaves those
  /// that begin after it.
  template <class Visited>
  constexpr void at(std::size_t v, const Visited& is_visited) {
    for (; !recomputed_.empty() && v < recomputed_.back().first; recomputed_.pop_back())
      for (const auto& [node, was] : recomputed_.back().outside) c_.set_primal_id(node, was);
    for (std::size_t r = in_.regions().size(); r-- > 0;) {
      const recorder::region& last = in_.regions()[r];
      if (last.last != v + 1 || !is_visited(last.loop) || !is_reached(last)) continue;
      // A copy: recording more nodes may move the others.
      const recorder::region region = in_.regions()[r];
      if (region.own_derivative()) own_derivative(region);
      else recompute(region);
    }
  }

 private:
  constexpr bool is_reached(const recorder::region& r) const {
    if (r.own_derivative()) {
      for (const value& result : r.results)
        if (c_.has_cotangent(result.id) && c_.depends(result.id)) return true;
      return false;
    }
    for (std::size_t v = r.first; v < r.last; ++v)
      if (c_.has_cotangent(v)) return true;
    return false;
  }

  /// The loop that recomputes a loop of a region; 0 after a fault.
  constexpr std::uint8_t loop_again(reverse_context::loop_table& loops, std::uint8_t loop, source where) {
    if (loops[loop] == 0) {
      loop_info info = c_.loops()[loop - 1u];
      info.around = loops[info.around] != 0 ? loops[info.around] : in_.recording();
      loops[loop] = in_.add_loop(info, where);
      c_.set_recomputed_loop(loop, loops[loop]);
    }
    return loops[loop];
  }
  /// Records the nodes of a region once more; `enter` is called with each operand from before it, `origin_of` gives the
  /// operation of whose derivative a node is then part. Defined before its first caller: clang cannot call a template
  /// during constant evaluation whose definition follows.
  template <class Enter, class Origin>
  constexpr void record_again(node_id first, node_id last, const Enter& enter, const Origin& origin_of) {
    reverse_context::loop_table loops{};
    for (std::size_t v = first; v < last; ++v) {
      node n = c_.node_at(v);
      if (n.of != 0) {
        n.of = loop_again(loops, n.of, n.where);
        if (n.of == 0) return;
        n.loop = is_outside_its_loop(n.code) ? c_.loops()[n.of - 1u].around : n.of;
      }
      indexed_vector<node_id> operands;
      for (unsigned k = 0; k < n.arity; ++k) {
        const node_id u = n.in[k];
        if (u < first) enter(u, n.where);
        operands.push_back(c_.primal_id(u));
      }
      const auto before = in_.derive(origin_of(n));
      c_.set_primal_id(v, in_.again(n, operands).id);
      in_.derive(before);
    }
    regions_again(first, last, loops);
  }
  /// The regions within such a region, for derivatives of nodes that were recorded once more.
  constexpr void regions_again(node_id first, node_id last, const reverse_context::loop_table& loops) {
    const std::size_t known = in_.regions().size();
    for (std::size_t r = 0; r < known; ++r) {
      recorder::region copy = in_.regions()[r];
      const bool is_stretch = copy.first == first && copy.last == last;
      if (copy.first < first || copy.last > last || copy.first >= copy.last || is_stretch) continue;
      const auto renamed = [&](indexed_vector<value>& all) {
        for (value& v : all)
          if (v.ok()) v.id = c_.primal_id(v.id);
      };
      renamed(copy.arguments), renamed(copy.results), renamed(copy.residuals);
      renamed(copy.stand_ins), renamed(copy.cotangents);
      if (copy.ahead != 0) copy.ahead = c_.primal_id(copy.ahead);
      copy.first = c_.primal_id(copy.first);
      copy.last = narrowed(c_.primal_id(copy.last - 1) + 1);
      in_.add(copy, loops[copy.loop] != 0 ? loops[copy.loop] : in_.recording());
    }
  }
  /// Recomputation (Griewank 1992; jax.checkpoint): the values of a region are computed again from its operands.
  constexpr void recompute(const recorder::region& r) {
    recomputed_.push_back({r.first, {}});
    indexed_vector<std::uint8_t> met(r.first, 0);
    const auto enter = [&](node_id u, source where) {
      if (met[u] != 0) return;
      met[u] = 1;
      recomputed_.back().outside.push_back({u, c_.primal_id(u)});
      const node from = c_.node_at(u);
      if (class_of(from.code) == op_class::source && from.code != op::input) {
        // One of a body cannot be read by another one.
        if (from.body != 0) c_.set_primal_id(u, in_.again(from, {}).id);
        return;
      }
      c_.set_primal_id(u, in_.alias(op::barrier, c_.primal(u), where).id);
    };
    record_again(r.first, r.last, enter, [](const node& n) { return recorder::origin{n.origin, n.gradient}; });
  }

  /// No gradient is better than one that is silently zero: `backward` gives no cotangents of captures of `forward`.
  constexpr void refuse_captures(const recorder::region& r) {
    const node_id end = r.ahead != 0 ? r.ahead : r.last;
    for (node_id v = r.first; v < end; ++v) {
      const node& n = c_.node_at(v);
      // A gradient ends here, whoever reads it.
      if (n.code == op::stop_gradient || !is_floating(n.type.element)) continue;
      for (unsigned k = 0; k < n.arity; ++k) {
        const node_id u = n.in[k];
        bool given = u >= r.first || !c_.depends(u);
        for (const value& a : r.arguments) given = given || a.id == u;
        if (!given) return in_.refuse(fault::captures_a_variable, "custom_vjp", n.where);
      }
    }
  }
  constexpr void own_derivative(const recorder::region& r) {
    refuse_captures(r);
    indexed_vector<value> residuals, cotangents;
    for (const value& v : r.residuals) residuals.push_back(c_.primal(v.id));
    // The operations within have no part in it, except those that a first derivative reads.
    for (const value& v : r.results) {
      cotangents.push_back(c_.whole_cotangent(v));
      c_.drop_cotangent(v.id);
    }
    const indexed_vector<value> back = cotangents_by_rule(r, residuals, cotangents);
    for (std::size_t i = 0; i < r.arguments.size(); ++i) {
      const node n = in_.at(r.arguments[i]);
      if (i >= back.size()) {
        in_.refuse(fault::result_count, "custom_vjp", n.where, {}, {}, std::ssize(r.arguments), std::ssize(back));
        return;
      }
      if (!back[i].ok() || !c_.depends(r.arguments[i].id)) continue;
      const tensor_type t = c_.type_of(back[i]);
      if (t.element != n.type.element || (t.set() & ~n.type.set()) != 0) {
        in_.refuse(fault::cotangent_does_not_fit, "custom_vjp", n.where);
        return;
      }
      c_.add(r.arguments[i].id, back[i], n.where);
    }
  }

  // No conditional expression: g++ 12 destroys its vectors too early in constant evaluation.
  constexpr indexed_vector<value> cotangents_by_rule(const recorder::region& r, indexed_span<const value> residuals,
                                                     indexed_span<const value> given) {
    if (!r.backward.given) return recorded_ahead(r, given);
    const node& made = in_.at({&in_, in_.at(r.results.front()).in[0]});
    const auto before = in_.derive({made.gradient ? made.origin : made.code, true});
    indexed_vector<value> back = r.backward.call(residuals, given);
    in_.derive(before);
    return back;
  }
  /// The cotangents of the arguments, as they were recorded with the region.
  constexpr indexed_vector<value> recorded_ahead(const recorder::region& r, indexed_span<const value> given) {
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!given[i].ok()) return indexed_vector<value>(r.cotangents.size(), given[i]);
    const reverse_context::loop_table loops = c_.recomputed_loops();
    const indexed_vector<node_id> before = c_.primal_ids();
    indexed_vector<std::uint8_t> stands_in(r.ahead, 0);
    for (std::size_t i = 0; i < given.size(); ++i) {
      c_.set_primal_id(r.stand_ins[i].id, given[i].id);
      stands_in[r.stand_ins[i].id] = 1;
    }
    const auto enter = [&](node_id u, source) {
      if (stands_in[u] == 0) static_cast<void>(c_.primal(u));
    };
    record_again(r.ahead, r.last, enter,
                 [](const node& n) { return recorder::origin{n.gradient ? n.origin : n.code, true}; });
    indexed_vector<value> back;
    for (const value& c : r.cotangents) back.push_back(c_.primal(c.id));
    c_.set_primal_ids(before);
    c_.set_recomputed_loops(loops);
    return back;
  }

  reverse_context& c_;
  recorder& in_;
  struct recomputed_region {
    node_id first;
    /// Its operands from before it, each with its node of the backward pass until then.
    indexed_vector<std::pair<node_id, node_id>> outside;
  };
  indexed_vector<recomputed_region> recomputed_{};
};

}}} // namespace cleave::v0::detail
