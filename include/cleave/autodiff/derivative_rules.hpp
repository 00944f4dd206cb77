// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/autodiff/remap_derivative.hpp>
#include <cleave/record/loop_parts.hpp>
#include <cleave/record/recorded_rows.hpp>
#include <cleave/record/recorded_sort.hpp>
#include <cleave/record/recorded_views.hpp>

#include <limits>

namespace cleave::detail {

/// What a cotangent of the result of one operation gives to its operands: a rule for each class, and formulas for elementwise ops.
class reverse_rules {
 protected:
  constexpr explicit reverse_rules(recorder& recording)
      : in_(recording), count_(recording.made().nodes.size()), depends_(count_, 0), cotangent_(count_, no_node), now_(count_, no_node) {
    for (std::size_t v = 0; v < count_; ++v) now_[v] = static_cast<node_id>(v);
  }

  constexpr const node& node_at(std::size_t v) const { return in_.made().nodes[v]; }
  /// A value of the forward pass as the backward pass reads it. What a loop computed in a trip is kept for the same trip of the loop
  /// backwards, in a stack; what a branch computed, as it is; an index of a stack is read again.
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
    const value stack = in_.made().loops[n.loop - 1u].once ? after_loop(in_, next_trip(in_, carry_into(in_, n.loop, in_.zeros(n.type, n.where), n.where), x, n.where), n.where)
                                          : collected_by(in_, n.loop, x, n.where);
    return stack.ok() ? each_of(in_, twin_[n.loop], kept(stack), n.where) : stack;
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
      case op_class::cumulative: running(v, n, g); break;
      case op_class::sort:
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
    add(n.in[0], recorded_scatter(in_, g, dim_at(n.which[0]), places, table, n.where), n.where);
  }
  constexpr void added_up(const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    g = in_.broadcast(g, n.type, n.where);
    add(n.in[0], recorded_gather(in_, g, dim_at(n.which[0]), primal(n.in[1]), n.where), n.where);
  }
  /// A running sum gives each cotangent to all elements before it: the running sum from the other end. So does a product, times the
  /// others; a maximum gives it to the element that it is.
  constexpr void running(std::size_t v, const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    if (!type_of(g).has(n.which[0])) g = in_.broadcast(g, n.type, n.where);
    const dim_ref along = dim_at(n.which[0]);
    const auto before = [&](value y) { return recorded_cumulative(in_, reduction::sum, y, along, !n.backwards, n.exclusive, n.where); };
    if (n.combine == reduction::sum) return add(n.in[0], before(g), n.where);
    const value x = primal(n.in[0]), r = primal(v);
    const element e = n.type.element;
    const auto apply = [&](op code, auto... args) { return in_.elementwise(code, std::array{args...}, n.where, element::none, true); };
    const auto number = [&](double c, element of) { return in_.constant(c, of, n.where); };
    if (n.combine == reduction::prod) {
      // By division where nothing is zero; the first zero takes the product of the others.
      const value zero = apply(op::equal, x, number(0, e));
      const value zeros = recorded_cumulative(in_, reduction::sum, in_.elementwise(op::cast, std::array{zero}, n.where, element::i32), along, n.backwards, false, n.where);
      const value first = apply(op::logical_and, zero, apply(op::equal, zeros, number(1, element::i32)));
      const value others = recorded_cumulative(in_, reduction::prod, apply(op::select, first, number(1, e), x), along, n.backwards, n.exclusive, n.where);
      const value by_division = apply(op::div, before(apply(op::mul, g, r)), apply(op::select, zero, number(1, e), x));
      return add(n.in[0], apply(op::select, first, before(apply(op::mul, g, others)), apply(op::select, zero, number(0, e), by_division)), n.where);
    }
    // Where the extremum was attained last, in the order of the run.
    const value reached = n.exclusive ? recorded_cumulative(in_, n.combine, x, along, n.backwards, false, n.where) : r;
    const double none = n.backwards ? std::numeric_limits<std::int32_t>::max() : -1;
    const value places = apply(op::select, apply(op::equal, x, reached), in_.iota(along, element::i32, n.where), number(none, element::i32));
    const value last = recorded_cumulative(in_, n.backwards ? reduction::min : reduction::max, places, along, n.backwards, n.exclusive, n.where);
    to_places(n, g, last, along);
  }
  /// Cotangents of a slice go to the places that another slice names.
  constexpr void to_places(const node& n, value g, value places, dim_ref along) {
    const dim_ref ranks = ranks_along(n.which[0], along.extent);
    const tensor_type whole = node_at(n.in[0]).type; // a copy: recording moves the nodes
    g = recorded_rename(in_, in_.broadcast(g, n.type, n.where), along, ranks, n.where);
    places = recorded_rename(in_, places, along, ranks, n.where);
    add(n.in[0], recorded_scatter(in_, g, along, places, whole, n.where), n.where);
  }

  /// A cotangent of each element of a slice in order goes to where the element was.
  constexpr void sorted(const node& n, value g) {
    if (depends_[n.in[0]] == 0) return;
    const dim_ref along = dim_at(n.which[0]);
    to_places(n, g, recorded_sort(in_, op::argsort, primal(n.in[0]), along, n.backwards, n.where), along);
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
    if (n.code == op::rename) return has(n.which[1]) ? recorded_rename(in_, g, dim_at(n.which[1]), dim_at(n.which[0]), n.where) : g;
    if (n.code == op::split) {
      if (!has(n.which[1]) && !has(n.which[2])) return g;
      if (!has(n.which[1]) || !has(n.which[2])) g = in_.broadcast(g, n.type, n.where);
      return recorded_merge(in_, g, dim_at(n.which[1]), dim_at(n.which[2]), dim_at(n.which[0]), n.where);
    }
    return has(n.which[2]) ? recorded_split(in_, g, dim_at(n.which[2]), dim_at(n.which[0]), dim_at(n.which[1]), n.where) : g;
  }

  recorder& in_;
  std::size_t count_;
  /// Whether a value depends on a wanted one, differentiably.
  std::vector<std::uint8_t> depends_;
  std::vector<node_id> cotangent_;
  /// Where the backward pass reads each value of the forward pass.
  std::vector<node_id> now_;
  /// The loop backwards for each that is being gone through; and what a loop is that was recorded again.
  std::array<std::uint8_t, max_loops + 1> twin_{}, again_{};
};

} // namespace cleave::detail
