// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/reshard.hpp>
#include <cleave/plan/options.hpp>
#include <cleave/record/recorder.hpp>

namespace cleave { inline namespace v0 {

/// A repair: the text to write in place of a refused operation, whose operands are called a, b and c. `bytes` is the
/// price of the move that it adds, -1 if it adds none.
struct repair {
  char text[120]{};
  std::size_t size = 0;
  std::int64_t bytes = -1;

  constexpr void add(std::string_view part) {
    for (std::size_t i = 0; i < part.size() && size < sizeof text; ++i) text[size++] = part[i];
  }
  constexpr void add(std::int64_t number) {
    if (number >= 10) add(number / 10);
    const char digit = narrowed('0' + number % 10);
    add(std::string_view(&digit, 1));
  }
  /// `mesh(row / data, col)`
  constexpr void add(const graph& g, const tensor_type& type, const layout& where) {
    add("mesh(");
    for (int i = 0; i < type.rank; ++i) {
      add(i == 0 ? "" : ", "), add(g.dims[type[i]].name);
      for (int j = 0; j < where[i].size(); ++j) add(" / "), add(g.mesh.axes[as_size(where[i][j])].name);
    }
    add(")");
  }
  constexpr std::string_view view() const { return {text, size}; }
};
/// The repairs that pass the check, at most two.
struct repair_list {
  repair of[2]{};
  std::size_t count = 0;
};

namespace detail {

class repair_search {
 public:
  constexpr repair_search(const graph& g, const sizes& s) : g_(g), sizes_(s) {}

  constexpr repair_list run() {
    if (g_.refused.empty() || g_.found.gradient) return found_;
    const node& n = g_.refused[0];
    if (g_.found.fault == fault::dims_do_not_broadcast && n.arity >= 2) broadcasts(n);
    if (g_.found.fault == fault::unreduced_into_nonlinear) reduces(n);
    if (g_.found.fault == fault::pinned_layouts_conflict) moves(n);
    return found_;
  }

 private:
  constexpr const node& operand_of(const node& n, int k) const { return g_.nodes[n.in.items[k]]; }
  constexpr void push(const repair& r, bool passes) {
    if (passes && found_.count < std::size(found_.of)) found_.of[found_.count++] = r;
  }

  /// Records the operation again, with complete operands of the same types, of which the one at `widened` is broadcast
  /// along `dims`.
  constexpr bool passes(const node& n, int widened, const indexed_vector<dim_ref>& dims) const {
    recorder in(g_.mesh);
    indexed_vector<value> args;
    for (int k = 0; k < n.arity; ++k) args.push_back(in.input(operand_of(n, k).type.element, spec_of(n, k)));
    if (widened >= 0) args[as_size(widened)] = in.broadcast(args[as_size(widened)], dims, n.where);
    static_cast<void>(in.elementwise(n.code, args, n.where, element::none, false, n.user));
    return in.made().found.ok();
  }
  constexpr spec spec_of(const node& n, int k) const {
    spec s;
    s.mesh = g_.mesh;
    const tensor_type& type = operand_of(n, k).type;
    for (int i = 0; i < type.rank; ++i) s.dims.push_back(placement(dim_ref{g_.dims[type[i]].name}));
    return s;
  }

  /// Broadcasts the operand that has the fewest dims. Of a product without a common dim, `dot` says the same.
  constexpr void broadcasts(const node& n) {
    int widened = 0;
    dim_set have = 0;
    indexed_vector<dim_ref> all;
    for (int k = 0; k < n.arity; ++k) {
      const tensor_type& type = operand_of(n, k).type;
      if (type.rank < operand_of(n, widened).type.rank) widened = k;
      for (int i = 0; i < type.rank; ++i)
        if ((have & dim_bit(type[i])).empty()) all.push_back(dim_ref{g_.dims[type[i]].name});
      have = have | type.set();
    }
    const bool apart = std::ssize(all) == operand_of(n, 0).type.rank + operand_of(n, 1).type.rank;
    repair r;
    if (n.arity == 2 && entry_of(n.code).sums == linearity::each && apart) r.add("dot(a, b)"), push(r, true), r = {};
    const std::string_view sign = entry_of(n.code).sign;
    if (sign.empty()) r.add(name_of(n)), r.add("(");
    for (int k = 0; k < n.arity; ++k) {
      if (k > 0) r.add(sign.empty() ? "," : " "), r.add(sign), r.add(" ");
      if (k == widened) r.add("broadcast(");
      r.add(letters[k]);
      if (k != widened) continue;
      for (const dim_ref& d : all) r.add(", "), r.add(d.name);
      r.add(")");
    }
    if (sign.empty()) r.add(")");
    push(r, std::ssize(all) <= max_rank && passes(n, widened, all));
  }

  /// The operand that is unreduced, complete on every device; and sharded over the same axis, for half of the bytes.
  constexpr void reduces(const node& n) {
    for (int k = 0; k < n.arity; ++k) {
      const node& from = operand_of(n, k);
      if (!from.pin.is_partial()) continue;
      const bool checked = !is_elementwise(n.code) || passes(n, -1, {});
      push(resharded(k, from, from.pin.reduced()), checked);
      repair least;
      for (int i = 0; i < from.type.rank; ++i)
        if (const repair r = resharded(k, from, scattered(from.pin, i)); least.bytes < 0 || r.bytes < least.bytes)
          least = r;
      push(least, checked && least.bytes >= 0);
      return;
    }
  }
  static constexpr layout scattered(const layout& from, int position) {
    layout to = from.reduced();
    for (int axis = 0; axis < max_axes; ++axis)
      if ((from.partial_bits() >> axis & 1u) != 0) to.append(position, axis);
    return to;
  }
  /// A value that is pinned twice moves from the first layout to the second.
  constexpr void moves(const node& n) {
    const node& from = operand_of(n, 0);
    layout to = from.pin;
    for (int i = 0; i < n.type.rank; ++i)
      if ((n.pinned >> i & 1) != 0) to.clear(i), to.set(i, n.pin[i]);
    push(resharded(0, from, to), true);
  }
  constexpr repair resharded(int k, const node& from, const layout& to) const {
    repair r;
    r.add("reshard("), r.add(letters[k]), r.add(", ");
    r.add(g_, from.type, to);
    r.add(")");
    const path p = find_path(shape_of(from.type, sizes_), size_of(from.type.element), from.pin, to, sizes_.axes,
                             policy::time());
    r.bytes = p.price.bytes;
    return r;
  }

  static constexpr std::string_view letters[] = {"a", "b", "c", "d", "e", "f"};

  const graph& g_;
  const sizes& sizes_;
  repair_list found_{};
};

} // namespace detail

/// Repairs of the operation that was refused, computed for its operands. Each was recorded again and passed. A graph of
/// a derivative has none, since the user wrote no such operation.
constexpr repair_list repairs_of(const graph& g, const sizes& s) { return detail::repair_search(g, s).run(); }

/// Other layouts with which a graph has a plan that keeps its contracts. `plan` plans a graph.
template <class Plan>
class layout_search {
 public:
  constexpr layout_search(const graph& g, const sizes& s, const Plan& plan) : g_(g), sizes_(s), plan_(plan) {}

  /// Of an operation for which two layouts cost the same: those that its operands have.
  constexpr repair_list constrained(const verdict& found) {
    for (std::size_t v = 0; v < g_.nodes.size(); ++v) {
      const node& n = g_.nodes[v];
      if (n.gradient || n.arity != 2 || n.where.line != found.where.line || name_of(n.code) != found.op) continue;
      for (int k = 0; k < n.arity; ++k) {
        graph other = g_;
        node& pinned = other.nodes[v];
        pinned.pin = brought(n.in.items[k], n.type);
        pinned.pinned = narrowed((1u << n.type.rank) - 1u);
        repair r;
        r.add("constrain(");
        if (const std::string_view sign = entry_of(n.code).sign; sign.empty()) r.add(name_of(n)), r.add("(a, b), ");
        else r.add("a "), r.add(sign), r.add(" b, ");
        r.add(g_, n.type, pinned.pin);
        r.add(")");
        push(r, other);
      }
      break;
    }
    return found_;
  }
  /// Of the results: a type that is sharded over all axes of collectives.
  constexpr repair_list produced(const program_view& p) {
    std::uint32_t used = 0;
    for (const step& s : p.steps)
      if (is_collective(s)) used |= s.axes;
    for (std::size_t result = 0; result < g_.output_types.size(); ++result)
      for (int i = 0; i < g_.output_types[result].rank; ++i) {
        const tensor_type& type = g_.output_types[result];
        graph other = g_;
        layout& where = other.output_layouts[result];
        const unsigned missing = used & ~where.sharded_bits();
        for (int axis = 0; axis < max_axes; ++axis)
          if ((missing >> axis & 1u) != 0) where.append(i, axis);
        repair r;
        r.add(type.element == element::f64 ? "cleave::abstract<double, " : "cleave::abstract<float, ");
        r.add(g_, type, where);
        r.add(">");
        if (missing != 0 && (type.element == element::f64 || type.element == element::f32)) push(r, other);
      }
    return found_;
  }

 private:
  constexpr void push(repair& r, const graph& other) {
    if (found_.count == std::size(found_.of)) return;
    const program p = plan_(other);
    if (!p.found.ok()) return;
    r.bytes = bytes(p, sizes_);
    found_.of[found_.count++] = r;
  }
  /// The layout that the user wrote for an operand, or for the operands that it is computed from.
  constexpr layout brought(node_id v, const tensor_type& type) const {
    while (g_.nodes[v].pinned == 0 && g_.nodes[v].arity > 0) v = g_.nodes[v].in.items[0];
    const node& n = g_.nodes[v];
    layout l;
    for (int i = 0; i < type.rank; ++i)
      for (int from = 0; from < n.type.rank; ++from)
        if (n.type[from] == type[i]) l.set(i, n.pin[from]);
    return l;
  }

  const graph& g_;
  const sizes& sizes_;
  Plan plan_;
  repair_list found_{};
};

/// The tightest contract of the same kind that the plan keeps.
constexpr repair_list kept_contract(const program_view& p, const verdict& found, const sizes& at) {
  repair r;
  if (found.fault == fault::workspace_too_large) {
    r.add("at_most_workspace<"), r.add(workspace(p, at)), r.add(">{}");
  } else if (found.fault == fault::contract_broken && found.expected != found.got) {
    r.add("at_most<"), r.add(bytes(p, at)), r.add(">{}");
  } else if (found.fault == fault::contract_broken && !found.axis.empty()) {
    axis_set used = 0;
    for (const step& s : p.steps)
      if (is_collective(s)) used = used | s.axes;
    for (int a = 0; a < p.mesh.size(); ++a)
      if ((used >> a & 1) != 0) r.add(r.size == 0 ? "only_over<" : ", "), r.add(p.mesh.axes[as_size(a)].name);
    r.add(">{}");
  }
  repair_list found_repairs;
  if (r.size == 0) return found_repairs;
  if (found.fault == fault::contract_broken) r.bytes = bytes(p, at);
  found_repairs.of[found_repairs.count++] = r;
  return found_repairs;
}

}} // namespace cleave::v0
