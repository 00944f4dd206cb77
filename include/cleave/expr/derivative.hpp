// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/loop_parts.hpp>
#include <cleave/expr/remap_derivative.hpp>
#include <cleave/expr/sorted.hpp>

#include <limits>
#include <utility>

namespace cleave {

namespace detail {

/// Reverse mode on the graph itself (Linnainmaa 1970; as in JAX the backward pass is recorded as ordinary operations). A
/// cotangent may lack dims of its value, along which it is then constant: sums are broadcast where they meet something else,
/// not before.
class reverse_pass {
 public:
  /// Derivatives by `wanted`, which are nodes of op::identity that stand for the variables.
  constexpr reverse_pass(recorder& recording, std::span<const value> wanted)
      : in_(recording), count_(recording.made().nodes.size()), depends_(count_, 0), cotangent_(count_, no_node), now_(count_, no_node) {
    for (std::size_t v = 0; v < count_; ++v) now_[v] = static_cast<node_id>(v);
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
      std::size_t skip_to = v;
      for (std::size_t r = in_.regions().size(); r-- > 0;) {
        const recorder::region region = in_.regions()[r];
        if (region.last != v + 1 || region.loop != loop || !reached(region)) continue;
        if (region.backward == nullptr) {
          record_again(region);
        } else {
          own_derivative(region);
          skip_to = region.first;
          break;
        }
      }
      if (skip_to != v) {
        v = skip_to;
        continue;
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

  constexpr const node& node_at(std::size_t v) const { return in_.made().nodes[v]; }
  /// A value of the forward pass as the backward pass reads it. What a loop computed in a trip is kept for the same trip of the loop
  /// backwards, in a stack; an index of a stack is read again.
  constexpr value primal(std::size_t v) {
    const value x{&in_, now_[v]};
    if (!x.ok()) return x;
    const node n = in_.at(x);
    if (n.loop != 0 && twin_[n.loop] != 0) {
      const value again = n.code != op::each ? kept(x) : each_of(in_, twin_[n.loop], x.id == v ? primal(n.in[0]) : kept({&in_, n.in[0]}), n.where);
      now_[v] = again.id;
    }
    return {&in_, now_[v]};
  }
  constexpr value kept(value x) {
    const node n = in_.at(x);
    if (n.loop == 0 || twin_[n.loop] == 0) return x;
    const value stack = runs_once(n.loop) ? after_loop(in_, next_trip(in_, carry_into(in_, n.loop, zeros(n.type, n.where), n.where), x, n.where), n.where)
                                          : collected_by(in_, n.loop, x, n.where);
    return stack.ok() ? each_of(in_, twin_[n.loop], kept(stack), n.where) : stack;
  }
  /// A branch: what it computed is kept as it is.
  constexpr bool runs_once(std::uint8_t loop) const { return in_.made().loops[loop - 1u].along == no_dim; }
  constexpr value zeros(const tensor_type& t, source where) { return in_.broadcast(in_.constant(0, t.element, where), t, where);
  }
  /// What was refused has no dims.
  constexpr tensor_type type_of(value v) const { return v.ok() ? in_.at(v).type : tensor_type{}; }

  constexpr void add(std::size_t v, value c, source where) {
    if (!c.ok() || depends_[v] == 0) return;
    if (cotangent_[v] != no_node) c = in_.elementwise(op::add, std::array{value{&in_, cotangent_[v]}, c}, where, element::none, true);
    cotangent_[v] = c.id;
  }

  constexpr value whole_cotangent(value v) {
    const node n = in_.at(v);
    const node_id c = cotangent_[v.id];
    return in_.broadcast(c != no_node ? value{&in_, c} : in_.constant(0, n.type.element, n.where), n.type, n.where);
  }

  constexpr void visit(std::size_t v, const node& n) {
    const value g{&in_, cotangent_[v]};
    switch (class_of(n.code)) {
      case op_class::source: break;
      case op_class::elementwise:
        for (int k = 0; k < n.arity; ++k) elementwise(v, n, k, g);
        break;
      case op_class::contraction: contraction(n, g); break;
      case op_class::reduction: reduction_of(v, n, g); break;
      case op_class::remap: remap(n, g); break;
      case op_class::scan:
        if (n.code == op::cumulative) running(v, n, g);
        if (n.code == op::sort) sorted(n, g);
        break;
      case op_class::loop: break;
      case op_class::gather: looked_up(n, g); break;
      case op_class::scatter: added_up(n, g); break;
      case op_class::call:
        for (int k = 0; k < n.arity; ++k)
          if (depends_[n.in[static_cast<std::size_t>(k)]] != 0) refuse_derivative(n);
        break;
      case op_class::view: add(n.in[0], view(n, g), n.where); break;
      case op_class::annotation:
        if (n.code != op::stop_gradient) add(n.in[0], n.code == op::constrain ? in_.constrain_like(g, n) : g, n.where);
        break;
    }
  }

  constexpr void remap(const node& n, value g) {
    std::vector<value> operands;
    for (int k = 0; k < n.arity; ++k) operands.push_back(primal(n.in[static_cast<std::size_t>(k)]));
    for (std::uint8_t k = 0; k < n.arity; ++k)
      if (depends_[n.in[k]] != 0) add(n.in[k], remap_adjoint(in_, n, g, operands).by(k), n.where);
  }

  constexpr void looked_up(const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    const value places = primal(n.in[1]);
    const tensor_type table = node_at(n.in[0]).type;
    g = in_.broadcast(g, n.type, n.where);
    add(n.in[0], in_.scatter(g, dim_at(n.which[0]), places, table, n.where), n.where);
  }
  constexpr void added_up(const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    g = in_.broadcast(g, n.type, n.where);
    add(n.in[0], in_.gather(g, dim_at(n.which[0]), primal(n.in[1]), n.where), n.where);
  }
  /// A running sum gives each cotangent to all elements before it: the running sum from the other end. So does a product, times the
  /// others; a maximum gives it to the element that it is.
  constexpr void running(std::size_t v, const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    if (!type_of(g).has(n.which[0])) g = in_.broadcast(g, n.type, n.where);
    const dim_ref along = dim_at(n.which[0]);
    const auto before = [&](value y) { return in_.cumulative(reduction::sum, y, along, !n.backwards, n.exclusive, n.where); };
    if (n.combine == reduction::sum) return add(n.in[0], before(g), n.where);
    const value x = primal(n.in[0]), r = primal(v);
    const element e = n.type.element;
    const auto apply = [&](op code, auto... args) { return in_.elementwise(code, std::array{args...}, n.where, element::none, true); };
    const auto number = [&](double c, element of) { return in_.constant(c, of, n.where); };
    if (n.combine == reduction::prod) {
      // By division where nothing is zero; the first zero takes the product of the others.
      const value zero = apply(op::equal, x, number(0, e));
      const value zeros = in_.cumulative(reduction::sum, in_.elementwise(op::cast, std::array{zero}, n.where, element::i32), along, n.backwards, false, n.where);
      const value first = apply(op::logical_and, zero, apply(op::equal, zeros, number(1, element::i32)));
      const value others = in_.cumulative(reduction::prod, apply(op::select, first, number(1, e), x), along, n.backwards, n.exclusive, n.where);
      const value by_division = apply(op::div, before(apply(op::mul, g, r)), apply(op::select, zero, number(1, e), x));
      return add(n.in[0], apply(op::select, first, before(apply(op::mul, g, others)), apply(op::select, zero, number(0, e), by_division)), n.where);
    }
    // Where the extremum was attained last, in the order of the run.
    const value reached = n.exclusive ? in_.cumulative(n.combine, x, along, n.backwards, false, n.where) : r;
    const double none = n.backwards ? std::numeric_limits<std::int32_t>::max() : -1;
    const value places = apply(op::select, apply(op::equal, x, reached), in_.iota(along, element::i32, n.where), number(none, element::i32));
    const value last = in_.cumulative(n.backwards ? reduction::min : reduction::max, places, along, n.backwards, n.exclusive, n.where);
    to_places(n, g, last, along);
  }
  /// Cotangents of a slice go to the places that another slice names.
  constexpr void to_places(const node& n, value g, value places, dim_ref along) {
    const dim_ref ranks = ranks_along(n.which[0], along.extent);
    g = in_.rename(in_.broadcast(g, n.type, n.where), along, ranks, n.where);
    add(n.in[0], in_.scatter(g, along, in_.rename(places, along, ranks, n.where), node_at(n.in[0]).type, n.where), n.where);
  }

  /// A cotangent of each element of a slice in order goes to where the element was.
  constexpr void sorted(const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    const dim_ref along = dim_at(n.which[0]);
    to_places(n, g, recorded_sort(in_, op::argsort, primal(n.in[0]), along, n.backwards, n.where), along);
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
    const bool branch = info.along == no_dim;
    if (branch && info.trips != 1) {
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
      seeds.push_back(given == no_node ? zeros(n.type, where) : in_order(in_.broadcast({&in_, given}, n.type, where), n.type, where));
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
    const std::uint8_t back = in_.enter({info.along, !info.backwards, 0, info.trips}, where);
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
      const value next = g == no_node ? zeros(n.type, where) : in_.broadcast({&in_, g}, n.type, where);
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
        const value sum = carry_into(in_, back, zeros(type_of(g), n.where), n.where);
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

  constexpr void refuse_derivative(const node& n) {
    const auto before = in_.derive({});
    in_.fail(fault::no_derivative, name_of(n), n.where);
    in_.derive(before);
  }

  constexpr value recorded(const formula& f, std::size_t v, const node& n, value g) {
    std::vector<value> made;
    for (const formula::term& t : f.terms) {
      if (t.code == op::constant) {
        made.push_back(in_.constant(t.number, n.type.element, n.where));
      } else if (t.code == op::input) {
        made.push_back(t.in[0] == 4 ? g : t.in[0] == 3 ? primal(v) : primal(n.in[static_cast<std::size_t>(t.in[0])]));
      } else {
        std::array<value, 3> args{};
        std::size_t arity = 0;
        while (arity < 3 && t.in[arity] >= 0) {
          args[arity] = made[static_cast<std::size_t>(t.in[arity])];
          ++arity;
        }
        made.push_back(in_.elementwise(t.code, std::span<const value>(args.data(), arity), n.where, element::none, true));
      }
    }
    return made.back();
  }

  constexpr void elementwise(std::size_t v, const node& n, int k, value g) {
    const std::size_t u = n.in[static_cast<std::size_t>(k)];
    const formula& f = n.user != nullptr ? n.user->derivative[k] : entry_of(n.code).derivative[k];
    if (depends_[u] == 0) return;
    if (n.user != nullptr && !n.user->differentiable) refuse_derivative(n);
    if (f.empty()) return;
    value c = recorded(f, v, n, g);
    if (!c.ok()) return;
    const tensor_type to = node_at(u).type;
    if (type_of(c).element != to.element) c = in_.elementwise(op::cast, std::array{c}, n.where, to.element);
    // An operand that was broadcast takes the sum over the dims that it does not have.
    const dim_set broadcast = n.type.set() & ~to.set(), has = type_of(c).set();
    if ((broadcast & has) != 0) c = in_.reduce(reduction::sum, c, broadcast & has, n.where);
    if ((broadcast & ~has) != 0) c = times_count(c, broadcast & ~has, n.where);
    add(u, c, n.where);
  }
  constexpr value times_count(value c, dim_set dims, source where) {
    const value count = in_.count(dims, type_of(c).element, where);
    return in_.elementwise(op::mul, std::array{c, count}, where);
  }

  constexpr void contraction(const node& n, value g) {
    const std::array<value, 2> operands{primal(n.in[0]), primal(n.in[1])};
    for (std::size_t k = 0; k < 2; ++k) {
      if (depends_[n.in[k]] == 0) continue;
      value other = operands[1 - k];
      const dim_set own = type_of(operands[k]).set(), has = type_of(g).set();
      // Along dims that only the other operand has and the cotangent lacks, the other is summed.
      const dim_set summed = type_of(other).set() & ~own & ~has;
      if (summed != 0) other = in_.reduce(reduction::sum, other, summed, n.where);
      const dim_set over = type_of(other).set() & has & ~own;
      add(n.in[k], k == 0 ? in_.dot(g, other, over, n.where) : in_.dot(other, g, over, n.where), n.where);
    }
  }

  constexpr void reduction_of(std::size_t v, const node& n, value g) {
    const value x = primal(n.in[0]), r = primal(v);
    const element e = n.type.element;
    const auto apply = [&](op code, auto... args) { return in_.elementwise(code, std::array{args...}, n.where, element::none, true); };
    const auto number = [&](double c) { return in_.constant(c, e, n.where); };
    const auto summed = [&](value c) { return in_.reduce(reduction::sum, c, n.over, n.where); };
    const auto as_number = [&](value p) { return in_.elementwise(op::cast, std::array{p}, n.where, e); };
    switch (n.combine) {
      case reduction::sum: return add(n.in[0], g, n.where);
      case reduction::max:
      case reduction::min: {
        // All that attain the extremum share equally.
        const value hit = apply(op::equal, x, r);
        return add(n.in[0], apply(op::select, hit, apply(op::div, g, summed(as_number(hit))), number(0)), n.where);
      }
      case reduction::prod: {
        // The product of the others, by division where nothing is zero.
        const value zero = apply(op::equal, x, number(0));
        const value zeros = summed(as_number(zero));
        const value rest = in_.reduce(reduction::prod, apply(op::select, zero, number(1), x), n.over, n.where);
        const value only = apply(op::select, apply(op::equal, zeros, number(1)), rest, number(0));
        const value slope = apply(op::select, zero, only, apply(op::div, r, apply(op::select, zero, number(1), x)));
        return add(n.in[0], apply(op::mul, g, slope), n.where);
      }
    }
  }

  constexpr dim_ref dim_at(dim_id d) const {
    const dim_info& i = in_.made().dims[d];
    return {i.name, i.extent, i.divisible};
  }
  /// The same elements back under the operand's dims.
  constexpr value view(const node& n, value g) {
    const auto has = [&](dim_id d) { return type_of(g).has(d); };
    if (n.code == op::rename) return has(n.which[1]) ? in_.rename(g, dim_at(n.which[1]), dim_at(n.which[0]), n.where) : g;
    if (n.code == op::split) {
      if (!has(n.which[1]) && !has(n.which[2])) return g;
      if (!has(n.which[1]) || !has(n.which[2])) g = in_.broadcast(g, n.type, n.where);
      return in_.merge(g, dim_at(n.which[1]), dim_at(n.which[2]), dim_at(n.which[0]), n.where);
    }
    return has(n.which[2]) ? in_.split(g, dim_at(n.which[2]), dim_at(n.which[0]), dim_at(n.which[1]), n.where) : g;
  }

  constexpr bool reached(const recorder::region& r) const {
    if (r.backward != nullptr) {
      for (const value& result : r.results)
        if (cotangent_[result.id] != no_node && depends_[result.id] != 0) return true;
      return false;
    }
    for (std::size_t v = r.first; v < r.last; ++v)
      if (cotangent_[v] != no_node) return true;
    return false;
  }

  /// Recomputation (Griewank 1992; jax.checkpoint): the values of a region are computed again from what it read.
  constexpr void record_again(const recorder::region& r) {
    entered_.push_back({r.first, {}});
    std::vector<std::uint8_t> met(r.first, 0);
    // Loops of the region are recorded again too.
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
    for (std::size_t v = r.first; v < r.last; ++v) {
      node n = node_at(v);
      if (n.of != 0) {
        n.of = loop_again(n.of, n.where);
        if (n.of == 0) return;
        n.loop = n.code == op::last || n.code == op::collect || n.code == op::trips ? in_.made().loops[n.of - 1u].around : n.of;
      }
      std::vector<node_id> operands;
      for (int k = 0; k < n.arity; ++k) {
        const node_id u = n.in[static_cast<std::size_t>(k)];
        if (u < r.first && met[u] == 0) {
          met[u] = 1;
          entered_.back().outside.push_back({u, now_[u]});
          const node from = node_at(u);
          if (class_of(from.code) != op_class::source || from.code == op::input) now_[u] = in_.alias(op::barrier, primal(u), n.where).id;
        }
        operands.push_back(now_[u]);
      }
      now_[v] = in_.again(n, operands).id;
    }
  }
  /// Below a region that was recorded again, what it read is read as before.
  constexpr void leave_regions(std::size_t v) {
    for (; !entered_.empty() && v < entered_.back().first; entered_.pop_back())
      for (const auto& [node, was] : entered_.back().outside) now_[node] = was;
  }

  constexpr void own_derivative(const recorder::region& r) {
    std::vector<value> residuals, cotangents;
    for (const value& v : r.residuals) residuals.push_back(primal(v.id));
    for (const value& v : r.results) cotangents.push_back(whole_cotangent(v));
    const std::vector<value> back = r.backward(residuals, cotangents);
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

  recorder& in_;
  std::size_t count_;
  /// Whether a value depends on a wanted one, differentiably.
  std::vector<std::uint8_t> depends_;
  std::vector<node_id> cotangent_;
  /// Where the backward pass reads each value of the forward pass.
  std::vector<node_id> now_;
  struct entered_region {
    node_id first;
    std::vector<std::pair<node_id, node_id>> outside;
  };
  std::vector<entered_region> entered_{};
  /// The loop that is recorded in which the derivative is; the loop backwards for each that is being gone through, and which are done.
  std::uint8_t base_ = 0;
  std::array<std::uint8_t, max_loops + 1> twin_{}, again_{};
  std::array<bool, max_loops + 1> reversed_{};
};

} // namespace detail

} // namespace cleave
