// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/values.hpp>
#include <cleave/program/step.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 { namespace lowering {

/// Which values are computed inside the step of another one. By value.
struct fusion {
  /// It has no step of its own.
  indexed_vector<std::uint8_t> fused{};
  /// Values that each reader computes for itself: a number, an index, a range predicate, or (made_again) a value whose
  /// operands are read in less time than it would be.
  indexed_vector<std::uint8_t> free{};
  static constexpr std::uint8_t made_again = 2;
  /// How many read it, the caller included; 0: it is not computed.
  indexed_vector<int> uses{};
};

/// The most arrays that a pass reads. Large arrays begin at the same offset of a page, so their lines compete for the
/// same few places of the first cache: with 12 arrays one pass is 1.2x faster than two, with 16 arrays 1.1x to 1.3x
/// slower. A number counts as none. A halo and its shard are one array, however often a stencil reads them, so that a
/// stencil is one pass. The number of operations has no limit, nor has the length of a chain of them: a pass of 400
/// dependent operations takes as long as a loop by hand.
inline constexpr std::size_t most_arrays = 12;
/// The most loads of a pass; the shards that are read with their halos are further operands of its step.
inline constexpr std::size_t most_loads = max_operands - most_arrays;
static_assert(most_arrays >= max_arity);

/// One value of a list, and the number of the next one; `none`: it is the last.
struct list_link {
  std::size_t value, next;
};
/// The expression of a step while it is filled: lists of the values that it computes and of those that it loads, by
/// their first links. All lists are in one array, since constant evaluation pays for each array.
struct expression {
  std::size_t members = none, loads = none;
  struct {
    std::uint8_t loads = 0;
    /// The loads that are neighbours in a shard and its halo, or are computed from such, and the number of their halos.
    std::uint8_t neighbours = 0, halos = 0;
    /// The loads without a dim.
    std::uint8_t numbers = 0;
    /// The members that are indices.
    std::uint8_t indices = 0;
  } n{};

  constexpr bool full() const { return n.loads >= most_loads; }
  constexpr bool has_all_arrays() const {
    return full() || std::size_t{n.loads} - n.neighbours - n.numbers + n.halos >= most_arrays;
  }
};

/// The data that fusion works on.
struct fusing {
  const assigned_graph& in;
  const partitioned& p;
  /// Those of `p`.
  const partitioned_value* values;
  fusion f{};
  /// By value that has a step.
  indexed_vector<expression> expressions{};
  indexed_vector<list_link> links{};
  /// By value: the step that reads it, if that is one that evaluates an expression.
  indexed_vector<std::size_t> reader{};

  /// By value: whether it is read in a shard and its halo, or computed for one reader from such values. Empty: none is.
  indexed_vector<std::uint8_t> in_stencil{};
  static constexpr std::uint8_t around_any = 1, around_carried = 2;

  /// Whether a value is read in a shard and its halo.
  constexpr bool reads_halo(std::size_t i) const {
    return p.values[i].reads_neighbours && p.is_halo(p.values[i].in[0]);
  }
};
/// Several steps read a value, or one that evaluates no expression.
inline constexpr std::size_t several = none - 1;

constexpr void count_uses(const partitioned& p, fusion& f) {
  const partitioned_value* values = p.values.data();
  const std::size_t count = p.values.size();
  int* uses = f.uses.data();
  for (std::size_t i = 0; i < count; ++i) {
    const partitioned_value& v = values[i];
    for (std::size_t k = 0; k < v.arity; ++k) ++uses[v.in.items[k]];
    if (v.origin == origin::next) ++uses[i], ++uses[v.in.items[1]];
  }
}
/// Whether an operation on the indices of a dim has such an index as its result, or a predicate.
constexpr bool adds_indices(const node& n) {
  const element e = n.type.element;
  const linearity sums = entry_of(n.code).sums;
  return e == element::boolean ||
         ((e == element::i32 || e == element::i64) &&
          (sums == linearity::unary || sums == linearity::joint || sums == linearity::difference));
}
/// Values that every reader computes for itself: literals, extents, indices, values without a dim that follow from
/// these, and sums and predicates of the indices of a dim.
constexpr void find_free(const assigned_graph& in, const partitioned& p, fusion& f) {
  const partitioned_value* values = p.values.data();
  const std::size_t count = p.values.size();
  std::uint8_t* free = f.free.data();
  for (std::size_t i = 0; i < count; ++i) {
    const partitioned_value& v = values[i];
    if (v.origin != origin::node) continue;
    const node& n = in.node_at(v.node);
    bool follows = v.arity == 0 ? rules::is_made_everywhere(n) : is_elementwise(n.code);
    bool of_predicates = v.arity == 0 || v.type.element == element::boolean;
    for (std::size_t k = 0; k < v.arity && follows; ++k) {
      follows = free[v.in.items[k]] != 0;
      of_predicates = of_predicates && values[v.in.items[k]].type.element == element::boolean;
    }
    free[i] = follows && (v.type.rank == 0 || of_predicates || (v.type.rank == 1 && adds_indices(n)));
  }
}
/// The cost of computing a value element by element from values that have memory, or that each reader computes.
struct remaking {
  int ops = 0, functions = 0, full_operands = 0;
  bool allowed = true;
};
/// Most operations of a value that several readers make for themselves, and most readers of one with a slow operation.
inline constexpr int most_remade_ops = 8, most_function_readers = 2;

constexpr void add_remaking(const assigned_graph& in, const partitioned& p, const fusion& f,
                            const std::uint8_t* in_memory, std::size_t i, remaking& r) {
  const partitioned_value& v = p.values[i];
  const node& n = in.node_at(v.node);
  if (has_trait(n.code, op_traits::slow)) {
    ++r.functions;
    r.allowed = r.allowed && v.type.element != element::f64;
  }
  r.allowed = r.allowed && !has_trait(n.code, op_traits::slowest);
  r.allowed = r.allowed && is_elementwise(n.code) && !is_of_user(n.code) && ++r.ops <= most_remade_ops;
  for (std::size_t k = 0; k < v.arity && r.allowed; ++k) {
    const std::size_t from = v.in[k];
    const partitioned_value& operand = p.values[from];
    if (f.free[from] == 1) continue;
    const bool computed = operand.origin == origin::node && operand.arity > 0 && operand.type.rank > 0 &&
                          is_elementwise(in.node_at(operand.node).code) && operand.loop == v.loop;
    if (operand.type.rank == v.type.rank && computed && in_memory[from] == 0 &&
        (f.uses[from] == 1 || f.free[from] != 0)) {
      add_remaking(in, p, f, in_memory, from, r);
    } else {
      const bool full = operand.type.rank == v.type.rank;
      r.full_operands += full ? 1 : 0;
      r.allowed = r.allowed && operand.loop == v.loop && !is_carried(in, p.values[root_of(p, from)]) &&
                  (!full || size_of(operand.type.element) <= size_of(v.type.element));
    }
  }
}
/// Marks a value and the operands that are computed for it alone.
constexpr void mark_remade(const assigned_graph& in, const partitioned& p, fusion& f, const std::uint8_t* in_memory,
                           std::size_t i) {
  f.free[i] = fusion::made_again;
  const partitioned_value& v = p.values[i];
  for (std::size_t k = 0; k < v.arity; ++k) {
    const std::size_t from = v.in[k];
    const partitioned_value& operand = p.values[from];
    if (f.free[from] == 0 && f.uses[from] == 1 && in_memory[from] == 0 && operand.type.rank == v.type.rank &&
        operand.origin == origin::node && operand.arity > 0 && is_elementwise(in.node_at(operand.node).code))
      mark_remade(in, p, f, in_memory, from);
  }
}
/// Values with several readers that each of them computes for itself (rematerialised): a value whose operands have
/// fewer dims, such as one-hot numbers, or one that is computed from one operand alone, such as exp(x - max); the
/// operand is then read instead. They are not stored. Not in loops, where operands may be overwritten, and not with
/// stencils. `reader_of`: `several` for those that are read outside of expressions.
constexpr void find_remade(const assigned_graph& in, const partitioned& p, const std::size_t* reader_of, fusion& f) {
  const std::size_t count = p.values.size();
  // By value: whether a reader needs it in memory.
  indexed_vector<std::uint8_t> needed(count, 0);
  std::uint8_t* const in_memory = needed.data();
  const partitioned_value* values = p.values.data();
  const int* uses = f.uses.data();
  for (std::size_t i = 0; i < count; ++i) in_memory[i] = reader_of[i] == several;
  for (std::size_t j = 0; j < count; ++j) {
    const partitioned_value& reader = values[j];
    if (uses[j] == 0 && reader.origin == origin::node) continue;
    for (std::size_t k = 0; k < reader.arity; ++k) {
      const std::size_t i = reader.in.items[k];
      if (uses[i] < 2 || in_memory[i] != 0) continue;
      in_memory[i] = reader.origin != origin::node || reader.loop != 0 || reader.reads_neighbours ||
                     !is_expression(in, reader) || loop_of(in, p, reader).set() != values[i].type.set();
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const partitioned_value& v = values[i];
    if (uses[i] < 2 || in_memory[i] != 0 || f.free[i] != 0 || v.origin != origin::node || v.arity == 0 || v.loop != 0 ||
        v.type.rank == 0 || v.reads_neighbours)
      continue;
    remaking r;
    add_remaking(in, p, f, in_memory, i, r);
    if (r.allowed && r.full_operands <= 1 && (r.functions == 0 || uses[i] <= most_function_readers))
      mark_remade(in, p, f, in_memory, i);
  }
}

/// Values that are read outside of expressions: by the caller, and by the loops that they control.
constexpr void note_outer_readers(fusing& s) {
  for (const auto& steering : {s.p.iterations, s.p.until})
    for (std::size_t i : steering)
      if (i != none) {
        ++s.f.uses[i];
        s.reader[i] = several;
        s.f.free[i] = false;
      }
  for (std::size_t r : s.p.results) {
    ++s.f.uses[r];
    s.reader[r] = several;
  }
}
/// Expressions that read a region at a distance each load it themselves; other readers need it as a shard.
constexpr void find_region_readers(fusing& s) {
  const std::size_t count = s.p.values.size();
  std::uint8_t* fused = s.f.fused.data();
  bool any = false;
  for (std::size_t i = 0; i < count; ++i)
    if (s.values[i].reads_neighbours) fused[i] = any = true;
  if (!any) return;
  for (std::size_t i = 0; i < count; ++i)
    if (!is_expression(s.in, s.values[i]) || (is_folded(s.in, s.values[i]) && s.reads_halo(s.values[i].in[0])))
      for (std::size_t k = 0; k < s.values[i].arity; ++k) fused[s.values[i].in[k]] = false;
  for (std::size_t i = 0; i < count; ++i)
    if (s.reader[i] == several) fused[i] = false;
}

/// Finds the values of stencils, whose operands are no operands of the step once they are fused.
constexpr void find_stencils(fusing& s) {
  if (std::ranges::none_of(s.p.regions.all, &shared_region::halo)) return;
  s.in_stencil.assign(s.p.values.size(), 0);
  for (std::size_t i = 0; i < s.p.values.size(); ++i) {
    const partitioned_value& v = s.p.values[i];
    std::uint8_t& around = s.in_stencil[i];
    if (s.reads_halo(i)) {
      const bool carried = is_carried(s.in, s.values[root_of(s.p, s.values[v.in[0]].in[0])]);
      around = carried ? fusing::around_carried : fusing::around_any;
    } else if (s.f.uses[i] == 1 && is_expression(s.in, v) && !is_folded(s.in, v)) {
      for (std::size_t k = 0; k < v.arity; ++k) around = std::max(around, s.in_stencil[v.in[k]]);
    }
  }
}

/// Whether a list has a value.
constexpr bool has_value(const fusing& s, std::size_t first, std::size_t i) {
  const list_link* const links = s.links.at;
  while (first != none && links[first].value != i) first = links[first].next;
  return first != none;
}
/// Puts a value at the beginning of a list.
constexpr void push(fusing& s, std::size_t& first, std::size_t i) {
  s.links.push_back({i, first});
  first = s.links.size() - 1;
}

constexpr bool take_member(fusing& s, expression& e, std::size_t i);
constexpr bool take_operand(fusing& s, expression& e, std::size_t i) {
  if (has_value(s, e.members, i) || has_value(s, e.loads, i)) return true;
  if (s.f.free[i] != 0 && !s.values[i].reads_neighbours) return take_member(s, e, i);
  if (s.in_stencil.empty() || s.in_stencil[i] == 0) {
    const bool number = s.values[i].type.rank == 0;
    if (number ? e.full() : e.has_all_arrays()) return false;
    if (number) ++e.n.numbers;
  } else if (!s.reads_halo(i)) {
    if (e.full()) return false;
    ++e.n.neighbours;
  } else {
    bool known = false;
    for (std::size_t k = e.loads; k != none && !known; k = s.links[k].next) {
      const std::size_t l = s.links[k].value;
      known = s.reads_halo(l) && s.p.values[l].in[0] == s.p.values[i].in[0];
    }
    if (known ? e.full() : e.has_all_arrays()) return false;
    ++e.n.neighbours;
    if (!known) ++e.n.halos;
  }
  ++e.n.loads;
  push(s, e.loads, i);
  return true;
}
constexpr bool take_member(fusing& s, expression& e, std::size_t i) {
  const partitioned_value& v = s.values[i];
  if (v.reads_neighbours) return take_operand(s, e, i);
  for (std::size_t k = 0; k < v.arity; ++k)
    if (!take_operand(s, e, v.in[k])) return false;
  if (v.arity == 0 && rules::is_index(s.in.node_at(v.node)) && ++e.n.indices > max_indices) return false;
  push(s, e.members, i);
  return true;
}

/// The value that a carried value becomes.
constexpr std::size_t next_of(const partitioned& p, std::size_t carried) {
  for (std::size_t i = carried + 1; i < p.values.size(); ++i)
    if (p.values[i].origin == origin::next && p.values[i].in[1] == carried) return i;
  return none;
}
/// The next value of a carried value may be computed straight into its memory, element by element. It may read no other
/// carried value that may have its next value already: these are set in their order.
constexpr bool keeps_iterations_apart(const fusing& s, std::size_t step, const expression& e) {
  const partitioned_value& writer = s.values[step];
  if (writer.origin != origin::next) return true;
  for (std::size_t k = e.loads; k != none; k = s.links[k].next) {
    const std::size_t l = s.links[k].value;
    // Neighbours of an element may have been overwritten before it.
    const bool around = s.reads_halo(l);
    const std::size_t at = root_of(s.p, around ? s.values[s.values[l].in[0]].in[0] : l);
    const partitioned_value& root = s.values[at];
    if (!is_carried(s.in, root) || s.in.node_at(root.node).of != s.in.node_at(writer.node).of) continue;
    if (const std::size_t next = next_of(s.p, at); !around && next != none && next > step) continue;
    const partitioned_value& loaded = s.values[l];
    if (around || l != writer.in[1] || loaded.type != writer.type || loaded.where != writer.where) return false;
  }
  return true;
}

/// Moves a value into the step that reads it, if there is one over the same dims that can hold it.
constexpr bool move_into_reader(fusing& s, std::size_t i) {
  const std::size_t reader = s.reader[i];
  const partitioned_value& v = s.values[i];
  if (reader >= several || !is_expression(s.in, v) || is_folded(s.in, v)) return false;
  const partitioned_value& step = s.values[reader];
  if (v.type.set() != loop_of(s.in, s.p, step).set() || v.loop != step.loop) return false;
  // A stencil of a carried value is computed as a whole into other memory, and the two exchange their memory.
  if (step.origin == origin::next && !s.in_stencil.empty() && s.in_stencil[i] == fusing::around_carried) return false;
  // It becomes a member in place of the load, unless the step cannot hold its operands too.
  expression& e = s.expressions[reader];
  const auto counted = e.n;
  std::size_t before = none, at = e.loads;
  for (; at != none && s.links[at].value != i; at = s.links[at].next) before = at;
  if (at != none) {
    (before == none ? e.loads : s.links[before].next) = s.links[at].next;
    --e.n.loads;
    if (v.type.rank == 0) --e.n.numbers;
    else if (!s.in_stencil.empty() && s.in_stencil[i] != 0) --e.n.neighbours;
  }
  const std::size_t members = e.members, loads = e.loads;
  if (take_member(s, e, i) && keeps_iterations_apart(s, reader, e) && (e.n.neighbours == 0 || !is_folded(s.in, step)))
    return true;
  e.members = members;
  e.loads = loads;
  if (at != none) (before == none ? e.loads : s.links[before].next) = at;
  e.n = counted;
  return false;
}

/// Decides where a value is computed; those that read it are decided.
constexpr void fuse_value(fusing& s, std::size_t i) {
  const partitioned_value& v = s.values[i];
  if (s.f.uses[i] == 0) {
    s.f.fused[i] = v.origin == origin::rename && v.arity == 0;
    return;
  }
  std::size_t* readers = s.reader.data();
  if (v.reads_neighbours) {
    readers[v.in[0]] = several;
    return;
  }
  std::size_t step = i;
  bool fused = s.f.fused[i] != 0;
  if (s.f.free[i] == fusion::made_again && readers[i] < several) {
    // All of its readers are in one step, which computes it once.
    s.f.free[i] = 0;
    s.f.fused[i] = fused = true;
    step = readers[i];
  } else if (s.f.free[i] != 0) {
    // Made on its own only for a reader that cannot make it.
    const bool again = s.f.free[i] == fusion::made_again;
    s.f.fused[i] = again || readers[i] == none;
    if (s.f.fused[i] != 0) {
      // Its operands have memory, since every reader reads them.
      for (std::size_t k = 0; k < v.arity && again; ++k)
        if (s.f.free[v.in[k]] != 1) readers[v.in[k]] = several;
      return;
    }
    fused = false;
  } else if (move_into_reader(s, i)) {
    s.f.fused[i] = fused = true;
    step = readers[i];
  }
  const bool evaluates = is_expression(s.in, v);
  if (!fused && evaluates) {
    expression& own = s.expressions[i];
    for (std::size_t k = 0; k < v.arity; ++k) static_cast<void>(take_operand(s, own, v.in.items[k]));
    if (!is_folded(s.in, v)) push(s, own.members, i);
  }
  for (std::size_t k = 0; k < v.arity; ++k) {
    const std::size_t operand = v.in.items[k];
    std::size_t& reader = readers[operand];
    if (!evaluates) reader = several;
    else if (reader != several && s.f.free[operand] != 1) reader = reader == none || reader == step ? step : several;
  }
}

/// Decides which values are computed inside a step: those all of whose readers are, and in one step. From the results
/// backwards, as far as a step can hold.
constexpr fusion fuse(const assigned_graph& in, const partitioned& p) {
  fusing s{in, p, p.values.data()};
  const std::size_t count = p.values.size();
  s.f.fused.assign(count, 0);
  s.f.free.assign(count, 0);
  s.f.uses.assign(count, 0);
  s.expressions.assign(count, expression{});
  s.links.reserve(4 * count);
  s.reader.assign(count, none);
  find_free(in, p, s.f);
  count_uses(p, s.f);
  note_outer_readers(s);
  if (p.regions.all.empty()) find_remade(in, p, s.reader.data(), s.f);
  find_region_readers(s);
  find_stencils(s);
  for (std::size_t i = count; i-- > 0;) fuse_value(s, i);
  return std::move(s.f);
}

}}} // namespace cleave::v0::lowering
