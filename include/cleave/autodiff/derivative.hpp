// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/autodiff/derivative_rules.hpp>

#include <utility>

namespace cleave {

namespace detail {

/// Reverse mode on the graph itself (Linnainmaa 1970; as in JAX the backward pass is recorded as ordinary operations). A
/// cotangent may lack dims of its value, along which it is then constant: sums are broadcast where they meet something else,
/// not before.
class reverse_pass : reverse_rules {
 public:
  /// Derivatives by `wanted`, which are nodes of op::identity that stand for the variables.
  constexpr reverse_pass(recorder& recording, std::span<const value> wanted) : reverse_rules(recording) {
    for (const value& w : wanted)
      if (w.ok()) depends_[w.id] = 1;
    // What a carried value becomes is recorded after it.
    while (find_dependents()) {}
  }

  /// Records the backward pass from the cotangents of some results; the cotangent of every wanted value, in its type.
  constexpr std::vector<value> run(std::span<const value> results, std::span<const value> seeds, std::span<const value> wanted) {
    for (std::size_t i = 0; i < results.size(); ++i) add(results[i].id, seeds[i], node_at(results[i].id).where);
    base_ = in_.recording();
    sweep(count_, 0, base_);
    std::vector<value> all;
    for (const value& w : wanted) all.push_back(whole_cotangent(w));
    return all;
  }

 private:
  /// The nodes of a loop, backwards; of what is differentiated all that is not in a loop within.
  constexpr void sweep(std::size_t end, std::size_t begin, std::uint8_t loop) {
    for (std::size_t v = end; v-- > begin;) {
      leave_regions(v);
      for (std::size_t r = in_.regions().size(); r-- > 0;) {
        if (in_.regions()[r].last != v + 1 || in_.regions()[r].loop != loop || !reached(in_.regions()[r])) continue;
        // What is recorded meanwhile may move the others.
        const recorder::region region = in_.regions()[r];
        if (region.own_derivative()) own_derivative(region);
        else record_again(region);
      }
      const std::uint8_t in = node_at(v).loop;
      if (in != loop && (loop != base_ || within(in_.made().loops, in, base_))) {
        if (within(in_.made().loops, in, loop)) reverse_loop(inner_loop(in, loop));
        continue;
      }
      if (cotangent_[v] == no_node || depends_[v] == 0) continue;
      const node n = node_at(v);
      const auto before = in_.derive({n.gradient ? n.origin : n.code, true});
      visit(v, n);
      in_.derive(before);
    }
  }
  constexpr std::uint8_t inner_loop(std::uint8_t loop, std::uint8_t around) const {
    while (in_.made().loops[loop - 1u].around != around) loop = in_.made().loops[loop - 1u].around;
    return loop;
  }

  /// One pass from the variables on; whether another one is needed.
  constexpr bool find_dependents() {
    bool again = false;
    std::size_t next = 0;
    for (std::size_t v = 0; v < count_; ++v) {
      const node& n = node_at(v);
      for (int k = 0; k < n.arity; ++k)
        if (depends_[n.in[static_cast<std::size_t>(k)]] != 0 && n.code != op::stop_gradient) {
          if (is_floating(n.type.element)) depends_[v] = 1;
          // No gradient is better than one that is silently zero.
          if (is_complex(n.type.element)) in_.fail(fault::not_differentiable, name_of(n.code), n.where);
        }
      // A derivative of its own may pass through operations that have none.
      for (; next < in_.regions().size() && in_.regions()[next].last <= v + 1; ++next) {
        const recorder::region& r = in_.regions()[next];
        bool any = false;
        for (const value& a : r.arguments) any = any || depends_[a.id] != 0;
        for (const value& result : r.results)
          if (any && is_floating(in_.at(result).type.element)) depends_[result.id] = 1;
      }
      if (n.code == op::next && depends_[v] != 0 && depends_[n.in[1]] == 0) depends_[n.in[1]] = 1, again = true;
    }
    return again;
  }

  /// The same loop the other way round: the cotangent of a carried value is carried back, those of what is read at an index are stacked,
  /// those of what all trips read are added up.
  constexpr void reverse_loop(std::uint8_t loop) {
    if (reversed_[loop]) return;
    reversed_[loop] = true;
    const loop_info info = in_.made().loops[loop - 1u];
    std::size_t first = count_, last = 0;
    bool any = false;
    for (std::size_t v = 0; v < count_; ++v) {
      const node& n = node_at(v);
      if (within(in_.made().loops, n.loop, loop)) first = v < first ? v : first, last = v + 1;
      any = any || (n.of == loop && (n.code == op::last || n.code == op::collect) && cotangent_[v] != no_node && depends_[v] != 0);
    }
    if (!any) return;
    const source where = node_at(first).where;
    const bool branch = info.once;
    if (info.along == no_dim && !branch) {
      in_.fail(fault::trips_not_known, "gradient", where);
      return;
    }
    const auto before = in_.derive({op::next, true});
    const std::vector<node_id> outer = cotangent_;
    const std::vector<std::uint8_t> active = reached_in(loop, first, last);
    struct carried {
      node_id forward;
      value back;
    };
    std::vector<carried> states;
    std::vector<value> seeds;
    for (std::size_t v = 0; v < count_; ++v) {
      const node n = node_at(v);
      if (n.code != op::next || n.of != loop || depends_[n.in[1]] == 0) continue;
      node_id given = no_node;
      for (std::size_t l = 0; l < count_; ++l)
        if (node_at(l).code == op::last && node_at(l).in[0] == v) given = outer[l];
      if (given == no_node && active[n.in[1]] == 0) continue;
      states.push_back({static_cast<node_id>(v), {}});
      seeds.push_back(given == no_node ? in_.zeros(n.type, where) : in_order(in_.broadcast({&in_, given}, n.type, where), n.type, where));
    }
    std::vector<std::pair<node_id, value>> stacks;
    for (std::size_t v = 0; v < count_; ++v) {
      const node n = node_at(v);
      if (n.code != op::collect || n.of != loop || outer[v] == no_node || depends_[v] == 0) continue;
      const value g{&in_, outer[v]};
      stacks.push_back({n.in[0], type_of(g).has(info.along) ? stack_first(in_, g, info.along, where) : g});
    }

    value runs{};
    for (std::size_t v = 0; v < count_ && branch; ++v)
      if (node_at(v).code == op::trips && node_at(v).of == loop) runs = primal(node_at(v).in[0]);
    const std::uint8_t back = in_.enter({info.along, !info.backwards, 0, info.trips, info.once}, where);
    if (back == 0) return;
    if (branch) trips_of_loop(in_, "gradient", back, runs, where);
    twin_[loop] = back;
    if (again_[loop] != 0) twin_[again_[loop]] = back;
    cotangent_.assign(count_, no_node);
    for (std::size_t i = 0; i < states.size(); ++i) {
      states[i].back = carry_into(in_, back, seeds[i], where);
      add(node_at(states[i].forward).in[0], states[i].back, where);
    }
    for (const auto& [v, g] : stacks) add(v, type_of(g).has(info.along) ? each_of(in_, back, g, where) : g, where);
    sweep(last, first, loop);
    in_.derive({op::next, true});

    // What goes on to the next trip, what is stacked, and what is added up.
    std::vector<std::pair<node_id, value>> given;
    const std::vector<node_id> inside = cotangent_;
    for (const carried& c : states) {
      const node n = node_at(c.forward);
      const node_id g = inside[n.in[1]];
      const value next = g == no_node ? in_.zeros(n.type, where) : in_.broadcast({&in_, g}, n.type, where);
      const value done = next_trip(in_, c.back, computed_for(in_, "gradient", c.back, next, where), where);
      given.push_back({node_at(n.in[1]).in[0], done});
    }
    std::vector<std::pair<node_id, value>> outside;
    for (std::size_t v = 0; v < count_; ++v) {
      if (inside[v] == no_node || depends_[v] == 0) continue;
      const node n = node_at(v);
      const value g{&in_, inside[v]};
      if (n.code == op::each && n.of == loop && !branch) {
        if (depends_[n.in[0]] != 0) outside.push_back({n.in[0], collected_by(in_, back, in_.broadcast(g, n.type, n.where), n.where)});
      } else if ((n.code == op::each && n.of == loop) || !within(in_.made().loops, n.loop, loop)) {
        const auto to = n.code == op::each && n.of == loop ? n.in[0] : static_cast<node_id>(v);
        if (in_.at(g).loop != back && !branch) {
          outside.push_back({static_cast<node_id>(v), times_count(g, dim_bit(info.along), n.where)});
          continue;
        }
        const value sum = carry_into(in_, back, in_.zeros(type_of(g), n.where), n.where);
        given.push_back({to, next_trip(in_, sum, computed_for(in_, "gradient", sum, in_.elementwise(op::add, std::array{sum, g}, n.where), n.where), n.where)});
      }
    }
    in_.leave(back);
    cotangent_ = outer;
    for (const auto& [v, g] : given) outside.push_back({v, after_loop(in_, g, where)});
    for (const auto& [v, g] : outside) add(v, g, where);
    twin_[loop] = twin_[again_[loop]] = 0;
    in_.derive(before);
  }
  /// The same values with the dims in an order.
  constexpr value in_order(value x, const tensor_type& t, source where) { return !x.ok() || type_of(x) == t ? x : copied(in_, x, t, where); }
  /// The values of a loop on which something depends of which there is a cotangent.
  constexpr std::vector<std::uint8_t> reached_in(std::uint8_t loop, std::size_t first, std::size_t last) const {
    std::vector<std::uint8_t> reached(count_, 0);
    for (std::size_t v = 0; v < count_; ++v) {
      const node& n = node_at(v);
      if (cotangent_[v] != no_node && n.of == loop && (n.code == op::last || n.code == op::collect)) reached[n.in[0]] = 1;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t v = last; v-- > first;) {
        const node& n = node_at(v);
        if (n.code == op::next && reached[n.in[1]] != 0 && reached[v] == 0) reached[v] = 1, changed = true;
        for (int k = 0; k < n.arity && reached[v] != 0; ++k)
          if (!(n.code == op::next && k == 1)) reached[n.in[static_cast<std::size_t>(k)]] = 1;
      }
    }
    return reached;
  }

  constexpr bool reached(const recorder::region& r) const {
    if (r.own_derivative()) {
      for (const value& result : r.results)
        if (cotangent_[result.id] != no_node && depends_[result.id] != 0) return true;
      return false;
    }
    for (std::size_t v = r.first; v < r.last; ++v)
      if (cotangent_[v] != no_node) return true;
    return false;
  }

  /// A stretch of nodes once more; `enter` is told of what they read from before it, `origin_of` says of what a node then is the derivative.
  /// Defined before its first caller: clang cannot call a template during constant evaluation whose definition follows.
  template <class Enter, class Origin>
  constexpr void record_again(node_id first, node_id last, const Enter& enter, const Origin& origin_of) {
    // Loops of the stretch are recorded again too.
    std::array<std::uint8_t, max_loops + 1> loops{};
    const auto loop_again = [&](std::uint8_t loop, source where) {
      if (loops[loop] == 0) {
        loop_info info = in_.made().loops[loop - 1u];
        info.around = loops[info.around] != 0 ? loops[info.around] : in_.recording();
        loops[loop] = in_.add_loop(info, where);
        again_[loop] = loops[loop];
      }
      return loops[loop];
    };
    for (std::size_t v = first; v < last; ++v) {
      node n = node_at(v);
      if (n.of != 0) {
        n.of = loop_again(n.of, n.where);
        if (n.of == 0) return;
        n.loop = n.code == op::last || n.code == op::collect || n.code == op::trips ? in_.made().loops[n.of - 1u].around : n.of;
      }
      std::vector<node_id> operands;
      for (int k = 0; k < n.arity; ++k) {
        const node_id u = n.in[static_cast<std::size_t>(k)];
        if (u < first) enter(u, n.where);
        operands.push_back(now_[u]);
      }
      const auto before = in_.derive(origin_of(n));
      now_[v] = in_.again(n, operands).id;
      in_.derive(before);
    }
  }
  /// Recomputation (Griewank 1992; jax.checkpoint): the values of a region are computed again from what it read.
  constexpr void record_again(const recorder::region& r) {
    entered_.push_back({r.first, {}});
    std::vector<std::uint8_t> met(r.first, 0);
    record_again(r.first, r.last, [&](node_id u, source where) {
      if (met[u] != 0) return;
      met[u] = 1;
      entered_.back().outside.push_back({u, now_[u]});
      const node from = node_at(u);
      if (class_of(from.code) != op_class::source || from.code == op::input) now_[u] = in_.alias(op::barrier, primal(u), where).id;
    }, [](const node& n) { return recorder::origin{n.origin, n.gradient}; });
  }
  /// Below a region that was recorded again, what it read is read as before.
  constexpr void leave_regions(std::size_t v) {
    for (; !entered_.empty() && v < entered_.back().first; entered_.pop_back())
      for (const auto& [node, was] : entered_.back().outside) now_[node] = was;
  }

  constexpr void own_derivative(const recorder::region& r) {
    std::vector<value> residuals, cotangents;
    for (const value& v : r.residuals) residuals.push_back(primal(v.id));
    // The operations within have no part in it, but for what a first derivative reads of them.
    for (const value& v : r.results) {
      cotangents.push_back(whole_cotangent(v));
      cotangent_[v.id] = no_node;
    }
    const std::vector<value> back = cotangents_by_rule(r, residuals, cotangents);
    for (std::size_t i = 0; i < r.arguments.size(); ++i) {
      const node n = in_.at(r.arguments[i]);
      if (i >= back.size()) {
        in_.fail(fault::result_count, "custom_vjp", n.where, {}, {}, static_cast<std::int64_t>(r.arguments.size()), static_cast<std::int64_t>(back.size()));
        return;
      }
      if (!back[i].ok() || depends_[r.arguments[i].id] == 0) continue;
      const tensor_type t = type_of(back[i]);
      if (t.element != n.type.element || (t.set() & ~n.type.set()) != 0) {
        in_.fail(fault::cotangent_does_not_fit, "custom_vjp", n.where);
        return;
      }
      add(r.arguments[i].id, back[i], n.where);
    }
  }

  // No conditional expression: g++ 12 destroys its vectors too early in constant evaluation.
  constexpr std::vector<value> cotangents_by_rule(const recorder::region& r, std::span<const value> residuals, std::span<const value> given) {
    if (r.backward == nullptr) return recorded_ahead(r, given);
    const node& made = in_.at({&in_, in_.at(r.results.front()).in[0]});
    const auto before = in_.derive({made.gradient ? made.origin : made.code, true});
    std::vector<value> back = r.backward(residuals, given);
    in_.derive(before);
    return back;
  }
  /// The cotangents of the arguments, as they were recorded with the region.
  constexpr std::vector<value> recorded_ahead(const recorder::region& r, std::span<const value> given) {
    const auto was = now_;
    const auto loops = again_;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!given[i].ok()) return std::vector<value>(r.cotangents.size(), given[i]);
    std::vector<std::uint8_t> stands_in(r.ahead, 0);
    for (std::size_t i = 0; i < given.size(); ++i) {
      now_[r.stand_ins[i].id] = given[i].id;
      stands_in[r.stand_ins[i].id] = 1;
    }
    record_again(r.ahead, r.last, [&](node_id u, source) {
      if (stands_in[u] == 0) static_cast<void>(primal(u));
    }, [](const node& n) { return recorder::origin{n.gradient ? n.origin : n.code, true}; });
    std::vector<value> back;
    for (const value& c : r.cotangents) back.push_back(primal(c.id));
    now_ = was;
    again_ = loops;
    return back;
  }

  struct entered_region {
    node_id first;
    std::vector<std::pair<node_id, node_id>> outside;
  };
  std::vector<entered_region> entered_{};
  /// The loop that is recorded in which the derivative is; and which loops are done.
  std::uint8_t base_ = 0;
  std::array<bool, max_loops + 1> reversed_{};
};

} // namespace detail

} // namespace cleave
