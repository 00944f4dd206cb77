// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/record/value.hpp>
#include <cleave/record/writer.hpp>

#include <type_traits>

namespace cleave { inline namespace v0 {

/// Writes a graph: checks each operation when it is recorded, notes the first fault, decides nothing. Works in constant
/// evaluation and at run time. Names given to it must outlive the graph.
class recorder : public graph_writer {
 public:
  using graph_writer::graph_writer;

  /// The node of a value. A value that is missing after a fault has an empty one, so that nobody reads past the nodes.
  constexpr const node& at(value v) const { return v.id != no_node ? made_.nodes[v.id] : missing_node_; }

  /// Whether the user pinned a value as unreduced.
  constexpr bool is_unreduced(value v) const {
    while (at(v).code == op::identity || at(v).code == op::stop_gradient) v.id = at(v).in[0];
    return (at(v).code == op::input || at(v).code == op::reshard) && at(v).pin.is_partial();
  }

  /// An argument: its dims in memory order with the layout of the specification, which is never overridden.
  constexpr value input(element type, const spec& s, source where = {}) {
    node n = source_node(op::input, type, where);
    if (!s.well_formed || type == element::none) return fail(fault::already_reported, "input", where);
    for (const placement& p : s.dims) {
      const int d = intern(p.dim, "input", where);
      if (d < 0) return {this, no_node};
      if (n.type.has(d)) return fail(fault::dim_used_twice, "input", where, p.dim.name);
      n.type.append(d);
    }
    if (!resolve(s, n.type, "input", where, n.pin, n.pinned)) return {this, no_node};
    n.combine = s.combine;
    const value v = push(n);
    made_.inputs.push_back(v.id);
    return v;
  }

  /// Lets each device compute the neighbours of its block of a value, instead of fetching them.
  constexpr void compute_halo(value v) {
    if (v.ok()) made_.nodes[v.id].computes_halo = true;
  }

  /// Declares a result with an open layout (completion chooses it).
  constexpr void output(value v) {
    if (!is_result(v, {})) return;
    made_.outputs.push_back(v.id);
    made_.output_types.push_back(at(v).type);
    made_.output_layouts.push_back({});
  }

  /// Declares a result and the type and layout asked for it.
  constexpr void output(value v, element type, const spec& s, source where = {}) {
    made_.outputs_pinned = true;
    if (!is_result(v, where)) return;
    tensor_type t;
    t.element = type;
    for (const placement& p : s.dims) {
      const int d = intern(p.dim, "assignment", where);
      if (d < 0) return;
      if (t.has(d)) {
        refuse(fault::dim_used_twice, "assignment", where, p.dim.name);
        return;
      }
      if (!at(v).type.has(d)) {
        refuse(fault::assignment_to_other_dims, "assignment", where, p.dim.name);
        return;
      }
      t.append(d);
    }
    for (int i = 0; i < at(v).type.rank; ++i)
      if (!t.has(at(v).type[i])) {
        refuse(fault::assignment_to_other_dims, "assignment", where, made_.dims[at(v).type[i]].name);
        return;
      }
    if (t.element != at(v).type.element) {
      refuse(fault::element_types_differ, "assignment", where);
      return;
    }
    layout l;
    std::uint8_t pinned = 0;
    if (!resolve(s, t, "assignment", where, l, pinned)) return;
    made_.outputs.push_back(v.id);
    made_.output_types.push_back(t);
    made_.output_layouts.push_back(l);
  }

  /// In place of a value that was never computed: a fault, unless one on the way to it has been reported. So an operand
  /// without a node is never recorded, and a plan lacks no value of the program.
  constexpr value missing(std::string_view op, source where) { return fail(fault::value_missing, op, where); }

  /// An operand as a value of this graph. A literal becomes a constant of the element type given, or of the one in
  /// which it is written.
  constexpr value value_of(const operand& x, std::string_view op, element type = element::none) {
    if (!x.is_literal) return x.from.ok() ? x.from : missing(op, x.where);
    if (type == element::none) type = x.written;
    if (type == element::none) return fail(fault::not_an_element, op, x.where);
    // Floating-point types round. They are most operands, and each call costs time when compiling.
    if (type < element::bf16 && !has_number(type, x.literal)) return fail(fault::literal_does_not_fit, op, x.where);
    if (type < element::bf16 && x.rounded) return fail(fault::literal_too_long, op, x.where);
    if (x.imaginary == 0) return constant(x.literal, type, x.where);
    if (!is_complex(type)) return fail(fault::not_for_complex, "literal", x.where);
    return elementwise(op::complex,
                       std::array{constant(x.literal, real_of(type), x.where),
                                  constant(x.imaginary, real_of(type), x.where)},
                       x.where);
  }
  /// A number of a statement in the element type of the tensor that it is combined with, as a literal would be. Whether
  /// it fits is found when the plan runs.
  constexpr value number_as(value number, element type, std::string_view op, source where) {
    if (!number.ok()) return number;
    const element given = at(number).type.element;
    if (is_floating(given) && !is_floating(type) && !is_complex(type))
      return fail(fault::literal_does_not_fit, op, where);
    if (given == type) return number;
    const value made = elementwise(op::cast, std::array{number}, where, type);
    if (made.ok() && type < element::bf16) made_.nodes[made.id].scalar = is_number_that_fits;
    return made;
  }
  /// The same for an index, which is a whole number: a literal becomes one of 64 bits.
  constexpr value index_of(const operand& x, std::string_view op) {
    if (!x.is_literal) return value_of(x, op);
    const bool whole = x.imaginary == 0 && is_integer(x.written) && is_whole(x.literal);
    if (whole && x.literal < 0) return fail(fault::index_negative, op, x.where);
    return whole ? constant(x.literal, element::i64, x.where) : fail(fault::not_an_index, op, x.where);
  }

  /// While it lives, elementwise operations on operands of which none has all dims of the others make the outer form.
  class outer_products {
   public:
    constexpr explicit outer_products(recorder& in) : in_(in), before_(in.outer_) { in.outer_ = true; }
    outer_products(const outer_products&) = delete;
    outer_products& operator=(const outer_products&) = delete;
    constexpr ~outer_products() { in_.outer_ = before_; }

   private:
    recorder& in_;
    bool before_;
  };

  /// A comparison of labels, or rows at indices, at which checked mode looks (`labels_are_indices`), or a cast or
  /// select with a further meaning (`is_widened`, `chooses_update`).
  constexpr value marked(value v, double as) {
    if (v.ok()) made_.nodes[v.id].scalar = as;
    return v;
  }
  constexpr value constant(double number, element type, source where) {
    node n = source_node(op::constant, type, where);
    n.scalar = number;
    return push(n);
  }

  /// The product of the global extents of the dims, as a rank-0 value.
  constexpr value count(dim_set dims, element type, source where) {
    node n = source_node(op::count, type, where);
    n.over = dims;
    return push(n);
  }

  /// 0, 1, 2, ... along one dim.
  constexpr value iota(dim_ref along, element type, source where) {
    node n = source_node(op::iota, type, where);
    const int d = intern(along, "iota", where);
    if (d < 0) return {this, no_node};
    n.type.append(d);
    n.which[0] = narrowed(d);
    return push(n);
  }

  /// An elementwise op of any arity. Operands broadcast by name: one of them must have all the dims, unless the caller
  /// asks for the outer form, whose result has the dims of the widest operand and then those of the others.
  constexpr value elementwise(op code, indexed_span<const value> args, source where, element result = element::none,
                              bool outer = false, const user_entry* user = nullptr) {
    node n;
    n.code = code;
    n.user = user;
    n.where = where;
    n.arity = narrowed(args.size());
    const tensor_type* types[max_arity]{};
    int widest = 0;
    for (int k = 0; k < n.arity; ++k) {
      const node_id id = args.data()[k].id;
      if (id == no_node) return missing(name_of(n), where);
      n.in[k] = id;
      types[k] = &made_.nodes[id].type;
      if (types[k]->rank > types[widest]->rank) widest = k;
    }
    if (!passes_partials(n)) return {this, no_node};
    n.type = *types[widest];
    const bool widens = outer || outer_;
    if (!widens && !broadcasts(n, types, widest, false)) return {this, no_node};
    const int first = static_cast<int>(typed_operand(code));
    if (is_of_user(code) && !user->takes(types[0]->element))
      return fail(fault::no_function_for_element, user->name, where);
    const element type = types[first]->element;
    for (int k = 0; k < n.arity; ++k)
      if (types[k]->element != (k < first ? element::boolean : type))
        return fail(fault::element_types_differ, name_of(n), where);
    if (widens && !broadcasts(n, types, widest, true)) return {this, no_node};
    return give_element(n, type, result) ? push(n) : value{this, no_node};
  }

  /// Sum over the dims in `over` of a * b; other shared dims are batch dims. Result: batch, rest of a, rest of b.
  constexpr value dot(value a, value b, indexed_span<const dim_ref> over, source where) {
    if (!a.ok() || !b.ok()) return missing("dot", where);
    dim_set set = 0;
    for (const dim_ref& k : over) {
      const int d = made_.find_dim(k.name);
      if (d < 0 || (at(a).type.set() & at(b).type.set() & dim_bit(d)) == 0)
        return fail(fault::contracted_dim_missing, "dot", where, k.name);
      if (intern(k, "dot", where) < 0) return {this, no_node};
      set |= dim_bit(d);
    }
    return dot(a, b, set, where);
  }
  constexpr value dot(value a, value b, dim_set over, source where) {
    if (!a.ok() || !b.ok()) return missing("dot", where);
    node n;
    n.code = op::dot;
    n.where = where;
    n.arity = 2;
    n.in = {a.id, b.id, no_node};
    n.over = over;
    const tensor_type ta = at(a).type, tb = at(b).type;
    if (ta.element != tb.element) return fail(fault::element_types_differ, "dot", where);
    if (!passes_partials(n)) return {this, no_node};
    n.type.element = ta.element;
    if (rank_of((ta.set() | tb.set()) & ~n.over) > max_rank) return fail(fault::rank_too_high, "dot", where);
    for (int i = 0; i < ta.rank; ++i)
      if (tb.has(ta[i]) && (n.over & dim_bit(ta[i])) == 0) n.type.append(ta[i]);
    for (int i = 0; i < ta.rank; ++i)
      if (!tb.has(ta[i])) n.type.append(ta[i]);
    for (int i = 0; i < tb.rank; ++i)
      if (!ta.has(tb[i])) n.type.append(tb[i]);
    return push(n);
  }

  /// Reduction over the given dims, over all if none is given.
  constexpr value reduce(reduction how, value x, indexed_span<const dim_ref> over, source where) {
    if (!x.ok()) return missing(name_of(how), where);
    dim_set set = over.empty() ? at(x).type.set() : dim_set{};
    for (const dim_ref& k : over) {
      const int d = dim_of(x, k, name_of(how), where);
      if (d < 0) return {this, no_node};
      set |= dim_bit(d);
    }
    return reduce(how, x, set, where);
  }
  constexpr value reduce(reduction how, value x, dim_set over, source where) {
    if (!x.ok()) return missing(name_of(how), where);
    node n = node_on(op::reduce, x, where);
    n.combine = how;
    n.over = over;
    const tensor_type t = n.type;
    if (is_complex(t.element) && (how == reduction::max || how == reduction::min))
      return fail(fault::not_for_complex, name_of(how), where);
    if (how == reduction::logsumexp && !is_floating(t.element)) return fail(fault::not_floating, name_of(how), where);
    if (!passes_partials(n)) return {this, no_node};
    n.type = {};
    n.type.element = t.element;
    for (int i = 0; i < t.rank; ++i)
      if ((n.over & dim_bit(t[i])) == 0) n.type.append(t[i]);
    return push(n);
  }

  /// The same values along more dims, those of `like` in its order. By value: types of nodes move when others are
  /// recorded.
  constexpr value broadcast(value x, tensor_type like, source where) {
    if (!x.ok()) return missing("broadcast", where);
    const tensor_type from = at(x).type;
    for (int i = 0; i < from.rank; ++i)
      if (!like.has(from[i])) return fail(fault::dims_do_not_broadcast, "broadcast", where, made_.dims[from[i]].name);
    if (from.set() == like.set()) return x;
    node n = node_on(op::broadcast, x, where);
    if (!passes_partials(n)) return {this, no_node};
    n.type = like;
    n.type.element = from.element;
    return push(n);
  }
  constexpr value zeros(tensor_type type, source where) {
    return broadcast(constant(0, type.element, where), type, where);
  }
  constexpr value broadcast(value x, indexed_span<const dim_ref> along, source where) {
    if (!x.ok()) return missing("broadcast", where);
    tensor_type like;
    for (const dim_ref& d : along) {
      const int id = intern(d, "broadcast", where);
      if (id < 0) return {this, no_node};
      if (like.has(id)) return fail(fault::dim_used_twice, "broadcast", where, d.name);
      if (like.rank == max_rank) return fail(fault::rank_too_high, "broadcast", where);
      like.append(id);
    }
    return broadcast(x, like, where);
  }

  /// The same values in memory of their own, with the dims in the order of another type.
  constexpr value reordered(value x, const tensor_type& type, source where) {
    node n;
    n.code = op::cast;
    n.type = type;
    return append(n, std::array{x}, where);
  }

  /// Another name for a value, with a meaning for derivatives: identity, stop_gradient, barrier.
  constexpr value alias(op code, value x, source where) {
    if (!x.ok()) return missing(name_of(code), where);
    node n = node_on(code, x, where);
    // Barriers are never the same.
    if (code == op::barrier) n.scalar = as_double(made_.nodes.size());
    value same = push(n);
    same.number = x.number;
    return same;
  }

  /// Elements of the operands under other indices. The maps name dims of the graph; dims that they do not name are
  /// common.
  constexpr value remap(op code, indexed_span<const value> args, indexed_span<const dim_map> maps,
                        const tensor_type& result, source where) {
    node n;
    n.code = code;
    n.type = result;
    if (!take_operands(n, args, where)) return {this, no_node};
    n.maps = narrowed(maps.size());
    n.first_map = keep_maps(maps);
    return push(n);
  }
  /// Appends maps to the graph's table; returns the place of the first.
  constexpr std::uint16_t keep_maps(indexed_span<const dim_map> maps) {
    const std::uint16_t first = narrowed(made_.maps.size());
    for (const dim_map& m : maps) made_.maps.push_back(m);
    return first;
  }
  /// The id of a dim that a value has; -1 after a fault.
  constexpr int dim_of(value x, dim_ref d, std::string_view op, source where) {
    const int id = made_.find_dim(d.name);
    if (id >= 0 && at(x).type.has(id)) return id;
    refuse(fault::dim_missing, op, where, d.name);
    return -1;
  }
  /// The id of a dim by which an operation calls a dim of its result; -1 after a fault.
  constexpr int dim(dim_ref d, std::string_view op, source where) { return intern(d, op, where); }
  constexpr bool extent_follows(const derived_extent& rule, std::string_view op, source where) {
    return follows(rule, op, where);
  }
  constexpr bool extent_at_least(const least_extent& rule, std::string_view op, source where) {
    return at_least(rule, op, where);
  }

  /// Begins a loop in the one that is being recorded; nodes recorded until it is left may be part of it.
  constexpr std::uint8_t enter(loop_info info, source where) {
    info.around = recording_;
    const std::uint8_t loop = add_loop(info, where);
    if (loop != 0) recording_ = loop;
    return loop;
  }
  /// 0 after a fault.
  constexpr std::uint8_t add_loop(const loop_info& info, source where) {
    if (made_.loops.full()) {
      refuse(fault::too_many_loops, "scan", where);
      return 0;
    }
    made_.loops.push_back(info);
    return narrowed(made_.loops.size());
  }
  constexpr void leave(std::uint8_t loop) { recording_ = made_.loops[loop - 1u].around; }
  constexpr std::uint8_t recording() const { return recording_; }

  // For operations that are recorded elsewhere: operands first, then the type, then the node.
  using graph_writer::relate;
  using graph_writer::resolve;
  constexpr bool take_operands(node& n, indexed_span<const value> args, source where) {
    n.where = where;
    n.arity = narrowed(args.size());
    for (int k = 0; k < n.arity; ++k) {
      const node_id id = args.data()[k].id;
      if (id == no_node) {
        refuse(fault::value_missing, name_of(n), where);
        return false;
      }
      n.in.items[k] = id;
    }
    return passes_partials(n);
  }

  /// A node on one operand, of its type.
  constexpr node node_on(op code, value x, source where) const {
    node n;
    n.code = code;
    n.where = where;
    n.arity = 1;
    n.in[0] = x.id;
    n.type = at(x).type;
    return n;
  }

  constexpr value push(const node& n) {
    if (made_.nodes.size() >= no_node) return fail(fault::too_many_nodes, name_of(n.code), n.where);
    const std::size_t id = made_.nodes.size();
    if (made_.loops.count != 0 && !origin_.gradient && class_of(n.code) != op_class::loop)
      for (int k = 0; k < n.arity; ++k)
        if (!within(made_.loops, recording_, made_.nodes[n.in.items[k]].body))
          return fail(fault::value_of_a_body, name_of(n.code), n.where);
    made_.nodes.push_back(n);
    node& made = made_.nodes[id];
    if (made_.loops.count != 0 && class_of(n.code) != op_class::loop) made.loop = innermost(n);
    made.body = origin_.gradient ? std::uint8_t{0} : recording_;
    if (caller_.given) made.where = caller_.where;
    made.gradient = origin_.gradient;
    made.origin = origin_.gradient ? origin_.code : n.code;
    return {this, narrowed(id)};
  }

  /// A node whose type is known already, on its operands.
  constexpr value append(node n, indexed_span<const value> args, source where) {
    return take_operands(n, args, where) ? push(n) : value{this, no_node};
  }

  /// A copy of a recorded operation on other operands.
  constexpr value again(node n, indexed_span<const node_id> operands) {
    for (std::size_t k = 0; k < operands.size(); ++k) n.in[k] = operands[k];
    return push(n);
  }

  constexpr value fail(fault what, std::string_view op, source where, std::string_view dim = {},
                       std::string_view axis = {}, std::int64_t expected = 0, std::int64_t got = 0) {
    refuse(what, op, where, dim, axis, expected, got);
    return {this, no_node};
  }

  using region = special_region;
  constexpr void add(const region& r) { add(r, recording_); }
  constexpr void add(const region& r, std::uint8_t loop) {
    regions_.push_back(r);
    regions_.back().loop = loop;
  }
  constexpr const indexed_vector<region>& regions() const { return regions_; }

 private:
  static constexpr node missing_node_{};

  /// Whether a value can be a result: it was computed, and not by a body that is over.
  constexpr bool is_result(value v, source where) {
    if (!v.ok()) return refuse(fault::value_missing, "result", where), false;
    if (at(v).body != 0) return refuse(fault::value_of_a_body, "result", where), false;
    return true;
  }
  static constexpr node source_node(op code, element type, source where) {
    node n;
    n.code = code;
    n.where = where;
    n.type.element = type;
    return n;
  }

  /// The deepest loop of the operands.
  constexpr std::uint8_t innermost(const node& n) const {
    std::uint8_t loop = 0;
    const node* nodes = made_.nodes.data();
    for (int k = 0; k < n.arity; ++k)
      if (const std::uint8_t of = nodes[n.in.items[k]].loop; of != loop && within(made_.loops, of, loop)) loop = of;
    return loop;
  }

  static constexpr int rank_of(dim_set s) {
    int n = 0;
    for (; s != 0; s &= s - 1) ++n;
    return n;
  }

  indexed_vector<region> regions_{};
  /// The loop that is being recorded.
  std::uint8_t recording_ = 0;
  bool outer_ = false;
};

namespace detail {
constexpr value reported(recorder& in) { return in.fail(fault::already_reported, "statement", {}); }
constexpr value reported(const value& beside) { return beside.in == nullptr ? value{} : reported(*beside.in); }
} // namespace detail

}} // namespace cleave::v0
