// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/rules/reverse_context.hpp>

#include <utility>

namespace cleave { inline namespace v0 { namespace detail {

/// The adjoint of a loop. The cotangent of a carried value is carried back; those of slices at an index are stacked;
/// those of values that all iterations read are added up. Between `begin` and `end` the nodes of the loop are visited
/// backwards.
class reverse_loop {
 public:
  constexpr reverse_loop(reverse_context& c, std::uint8_t loop)
      : c_(c), in_(c.in()), loop_(loop), info_(c.loops()[loop - 1u]) {}

  constexpr std::size_t first() const { return first_; }
  constexpr std::size_t last() const { return last_; }

  /// Enters the reverse loop with the cotangents of the loop's results. False if there are none, or after a fault.
  constexpr bool begin() {
    if (!find_nodes()) return false;
    if (info_.along == no_dim && !info_.once) {
      in_.refuse(fault::iterations_not_known, "gradient", where_);
      return false;
    }
    before_ = in_.derive({op::loop_yield, true});
    outside_ = c_.cotangents();
    find_carries();
    find_stacks();
    const value runs = info_.once ? condition() : value{};
    reverse_ = in_.enter({info_.along, !info_.backwards, 0, info_.iterations, info_.once}, where_);
    if (reverse_ == 0) return false;
    if (info_.once) set_trip_count(in_, "gradient", reverse_, runs, where_);
    c_.set_reverse_loop(loop_, reverse_);
    c_.clear_cotangents();
    seed();
    return true;
  }

  /// Leaves it: records the carried, the stacked and the summed cotangents.
  constexpr void end() {
    in_.derive({op::loop_yield, true});
    const indexed_vector<node_id> inside = c_.cotangents();
    cotangents after, total;
    for (const carried& s : carries_) {
      const node n = c_.node_at(s.yield);
      const node_id g = inside[n.in[1]];
      const value next = g == no_node ? in_.zeros(n.type, where_) : in_.broadcast({&in_, g}, n.type, where_);
      after.push_back({c_.node_at(n.in[1]).in[0], yielded(s.cotangent, next, where_)});
    }
    for (std::size_t v = 0; v < c_.count(); ++v)
      if (inside[v] != no_node && c_.depends(v)) leave(v, {&in_, inside[v]}, after, total);
    in_.leave(reverse_);
    c_.set_cotangents(outside_);
    for (const auto& [v, g] : after) total.push_back({v, loop_result_of(in_, g, where_)});
    for (const auto& [v, g] : total) c_.add(v, g, where_);
    c_.set_reverse_loop(loop_, 0);
    in_.derive(before_);
  }

 private:
  using cotangents = indexed_vector<std::pair<node_id, value>>;
  /// A carried value: its next value in an iteration, and its cotangent, from outside and then as the reverse loop
  /// carries it.
  struct carried {
    node_id yield;
    value cotangent;
  };

  constexpr bool is_given_by(const node& n) const { return n.of == loop_ && leaves_loop(n.code); }
  constexpr bool is_slice(const node& n) const { return n.of == loop_ && n.code == op::loop_slice; }

  /// Finds the range of nodes; false if no cotangent comes in.
  constexpr bool find_nodes() {
    first_ = c_.count();
    bool any = false;
    for (std::size_t v = 0; v < c_.count(); ++v) {
      const node& n = c_.node_at(v);
      if (within(c_.loops(), n.loop, loop_)) first_ = v < first_ ? v : first_, last_ = v + 1;
      any = any || (is_given_by(n) && c_.has_cotangent(v) && c_.depends(v));
    }
    if (any) where_ = c_.node_at(first_).where;
    return any;
  }

  /// Carried values that need a cotangent, with the cotangent of their value after the loop.
  constexpr void find_carries() {
    const indexed_vector<std::uint8_t> reached = reached_nodes();
    for (std::size_t v = 0; v < c_.count(); ++v) {
      const node n = c_.node_at(v);
      if (n.code != op::loop_yield || n.of != loop_ || !c_.depends(n.in[1])) continue;
      node_id given = no_node;
      for (std::size_t l = 0; l < c_.count(); ++l)
        if (c_.node_at(l).code == op::loop_result && c_.node_at(l).in[0] == v) given = outside_[l];
      if (given == no_node && reached[n.in[1]] == 0) continue;
      const value seed = given == no_node ? in_.zeros(n.type, where_)
                                          : in_order(in_.broadcast({&in_, given}, n.type, where_), n.type);
      carries_.push_back({static_cast<node_id>(v), seed});
    }
  }
  /// Cotangents of the values that the loop stacks.
  constexpr void find_stacks() {
    for (std::size_t v = 0; v < c_.count(); ++v) {
      const node n = c_.node_at(v);
      if (n.code != op::loop_stack || n.of != loop_ || outside_[v] == no_node || !c_.depends(v)) continue;
      const value g{&in_, outside_[v]};
      stacks_.push_back({n.in[0], is_stacked(g) ? stack_first(in_, g, info_.along, where_) : g});
    }
  }
  constexpr bool is_stacked(value g) const { return c_.type_of(g).has(info_.along); }
  constexpr value in_order(value x, const tensor_type& t) {
    return !x.ok() || c_.type_of(x) == t ? x : in_.reordered(x, t, where_);
  }
  /// Whether a branch runs.
  constexpr value condition() {
    value runs{};
    for (std::size_t v = 0; v < c_.count(); ++v)
      if (c_.node_at(v).code == op::trip_count && c_.node_at(v).of == loop_) runs = c_.primal(c_.node_at(v).in[0]);
    return runs;
  }
  constexpr void seed() {
    for (carried& s : carries_) {
      s.cotangent = carry_into(in_, reverse_, s.cotangent, where_);
      c_.add(c_.node_at(s.yield).in[0], s.cotangent, where_);
    }
    for (const auto& [v, g] : stacks_) c_.add(v, is_stacked(g) ? loop_slice_of(in_, reverse_, g, where_) : g, where_);
  }

  /// The next value of a carried cotangent.
  constexpr value yielded(value carry, value next, source where) {
    return loop_yield_of(in_, carry, computed_for(in_, "gradient", carry, next, where), where);
  }
  /// The cotangent of a value after the nodes of the loop have been visited: passes it to the value outside.
  constexpr void leave(std::size_t v, value g, cotangents& after, cotangents& total) {
    const node n = c_.node_at(v);
    if (is_slice(n) && !info_.once) {
      if (c_.depends(n.in[0]))
        total.push_back({n.in[0], loop_stack_of(in_, reverse_, in_.broadcast(g, n.type, n.where), n.where)});
      return;
    }
    if (!is_slice(n) && within(c_.loops(), n.loop, loop_)) return;
    if (in_.at(g).loop != reverse_ && !info_.once) {
      // Equal in all iterations: times their number.
      const value count = in_.count(dim_bit(info_.along), c_.type_of(g).element, n.where);
      total.push_back({static_cast<node_id>(v), in_.elementwise(op::mul, std::array{g, count}, n.where)});
      return;
    }
    const value sum = carry_into(in_, reverse_, in_.zeros(c_.type_of(g), n.where), n.where);
    after.push_back({is_slice(n) ? n.in[0] : static_cast<node_id>(v),
                     yielded(sum, in_.elementwise(op::add, std::array{sum, g}, n.where), n.where)});
  }

  /// The nodes of the loop on which a value with a cotangent depends.
  constexpr indexed_vector<std::uint8_t> reached_nodes() const {
    indexed_vector<std::uint8_t> reached(c_.count(), 0);
    for (std::size_t v = 0; v < c_.count(); ++v)
      if (const node& n = c_.node_at(v); c_.has_cotangent(v) && is_given_by(n)) reached[n.in[0]] = 1;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t v = last_; v-- > first_;) {
        const node& n = c_.node_at(v);
        if (n.code == op::loop_yield && reached[n.in[1]] != 0 && reached[v] == 0) reached[v] = 1, changed = true;
        for (unsigned k = 0; k < n.arity && reached[v] != 0; ++k)
          if (!(n.code == op::loop_yield && k == 1)) reached[n.in[k]] = 1;
      }
      // The arguments to which a user's own derivative may give a cotangent, whether they are read or not.
      for (const recorder::region& r : in_.regions()) {
        bool gives = false;
        for (const value& result : r.results) gives = gives || (result.id < reached.size() && reached[result.id] != 0);
        for (const value& a : r.arguments)
          if (gives && r.own_derivative() && a.id < reached.size() && reached[a.id] == 0)
            reached[a.id] = 1, changed = true;
      }
    }
    return reached;
  }

  reverse_context& c_;
  recorder& in_;
  std::uint8_t loop_, reverse_ = 0;
  loop_info info_;
  source where_{};
  std::size_t first_ = 0, last_ = 0;
  recorder::origin before_{};
  /// The cotangents outside of the loop.
  indexed_vector<node_id> outside_{};
  indexed_vector<carried> carries_{};
  cotangents stacks_{};
};

}}} // namespace cleave::v0::detail
