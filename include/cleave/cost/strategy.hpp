// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/reshard.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave { inline namespace v0 {

/// The effect of sharding a factor, in the words of Shardy's sharding rules.
enum class factor_type : std::uint8_t {
  /// The axes that shard it in the operands shard it in the result: nothing moves.
  pass_through,
  /// Contracted or reduced: sharding it leaves a partial result.
  reduction,
  /// Operand and result may be sharded independently: the step fetches the missing elements.
  permutation,
  /// Sharded over axes that the user wrote, and no others.
  need_replication,
};

/// The factors of a node: each dim that may be sharded, and its position in every operand and in the result
/// (`in_result`); -1 if it does not appear. By-name dims make one rule serve almost every op.
struct factor {
  std::int8_t at[max_arity + 1] = {-1, -1, -1, -1, -1, -1, -1};
  factor_type type = factor_type::pass_through;
  /// Of a split or merged dim: the position of its minor part, in the result or in the operand; else -1.
  std::int8_t minor = -1;
  bool minor_in_result = false;
  /// A permutation: the index of the operand's own axes in strategy::taken.
  std::int8_t taken = -1;
  /// need_replication: the axes over which it is sharded all the same.
  axis_list pin{};

  constexpr bool is_reduced() const { return type == factor_type::reduction; }
  constexpr bool is_fetched() const { return type == factor_type::permutation; }
};

using factor_list = static_vector<factor, 16>;
inline constexpr int in_result = max_arity;

/// The factors of one node, wherever they are kept.
struct node_factors {
  const factor* items = nullptr;
  std::size_t count = 0;

  constexpr node_factors() = default;
  constexpr node_factors(const factor* first, std::size_t n) : items(first), count(n) {}
  constexpr node_factors(const factor_list& list) : items(list.items), count(list.count) {}
  constexpr const factor* begin() const { return items; }
  constexpr const factor* end() const { return items + count; }
};

/// The factors of all nodes of a graph: computed once, read by propagation, by the search and by lowering.
struct factor_table {
  indexed_vector<factor> kept{};
  /// By node: the index of its first factor, and how many it has.
  struct stretch {
    std::size_t first = 0, count = 0;
  };
  indexed_vector<stretch> of_node{};

  constexpr node_factors operator[](std::size_t v) const {
    const stretch& s = of_node.at[v];
    return {kept.at + s.first, s.count};
  }
  /// Sets those of a node; again if it became another operation.
  constexpr void set(std::size_t v, const factor_list& list) {
    of_node[v] = {kept.size(), list.count};
    for (std::size_t i = 0; i < list.count; ++i) kept.push_back(list.items[i]);
  }
};

/// The axes that shard a dim which is split or merged, as they shard its two parts.
struct view_parts {
  axis_list major{}, minor{};
  /// False if the blocks of the whole dim are no blocks of the parts: then only a prefix of its axes is kept.
  bool exact = true;
};

/// Up to six lists of axes in two words, three bits an axis.
struct short_lists {
  std::uint64_t low = 0, high = 0;

  constexpr axis_list operator[](int i) const {
    axis_list list;
    int place = 0;
    for (std::uint64_t rest = (i < 3 ? low >> 21 * i : high >> 21 * (i - 3)) & 0x1fffff; rest != 0;
         rest >>= 3, place += 4)
      list.packed |= static_cast<std::uint32_t>(rest & 7u) << place;
    return list;
  }
  constexpr void set(int i, axis_list list) {
    std::uint64_t bits = 0;
    int place = 0;
    for (std::uint32_t rest = list.packed; rest != 0; rest >>= 4, place += 3)
      bits |= static_cast<std::uint64_t>(rest & 7u) << place;
    std::uint64_t& word = i < 3 ? low : high;
    const int at = 21 * (i < 3 ? i : i - 3);
    word = (word & ~(std::uint64_t{0x1fffff} << at)) | bits << at;
  }
  constexpr bool empty() const { return (low | high) == 0; }
  friend constexpr bool operator==(const short_lists&, const short_lists&) = default;
};

/// How one node is computed: the axes that shard each factor, and which partial axes of its operands it forwards.
struct strategy {
  /// The layout in which the result comes out, partial over the axes that shard reduced factors or are forwarded.
  layout out{};
  /// Axes of the reduced factors, in the order of factors_of. gather: those of the table along which devices look up
  /// the rows that they have, so that the result is partial; else rows are fetched, `taken`.
  layout over{};
  /// remap: the axes of the operands' dims that the maps name, by map.
  short_lists taken{};
  /// scatter: the axes that shard the indices and over which rows are sent, so that they leave nothing partial.
  axis_set sent{};
  /// merge: how many of the last axes of the merged dim shard the minor dim of the operand.
  std::uint8_t minor = 0;
  /// Partial axes forwarded by linearity, and the operands that must be partial over them (bit set).
  axis_set forwarded{};
  std::uint8_t partial_operands = 0;

  constexpr bool divides_like(const strategy& other) const {
    return ((out.word ^ other.out.word) & layout::dims_mask) == 0 && over.word == other.over.word &&
           taken.low == other.taken.low && taken.high == other.taken.high && sent.word == other.sent.word &&
           minor == other.minor;
  }
  friend constexpr bool operator==(const strategy& a, const strategy& b) {
    return a.out.word == b.out.word && a.over.word == b.over.word && a.forwarded.word == b.forwarded.word &&
           a.partial_operands == b.partial_operands && a.taken.low == b.taken.low && a.taken.high == b.taken.high &&
           a.sent.word == b.sent.word && a.minor == b.minor;
  }
};

/// How partial values of a node's result combine: a reduction as it reduces, all else by sums.
constexpr reduction partial_reduction(const node& n) { return n.combine; }

/// The axes that shard a factor in its operands; `r` counts the reduced factors.
constexpr axis_list axes_of(const factor& f, const strategy& s, int& r) {
  switch (f.type) {
    case factor_type::need_replication: return f.pin;
    case factor_type::permutation: return s.over.axes(0) == 0 ? s.taken[f.taken] : s.over[0];
    case factor_type::reduction: return s.over[r++];
    case factor_type::pass_through: break;
  }
  return s.out[f.at[in_result]];
}
/// The layout that operand `k` of a node must have for a strategy.
constexpr layout required(const node& n, node_factors factors, const strategy& s, int k) {
  layout l;
  int r = 0;
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    const axis_list list = axes_of(f, s, r);
    const int position = f.at[k];
    if (position < 0) continue;
    if (f.minor < 0) {
      if (list.packed != 0) l.set(position, list);
    } else if (f.minor_in_result) {
      l.set(position, list.then(s.out[f.minor]));
    } else {
      const int major = list.size() > s.minor ? list.size() - s.minor : 0;
      l.set(position, list.prefix(major));
      l.set(f.minor, list.without(major));
    }
  }
  if ((s.partial_operands >> k & 1) != 0) l.set_partial(s.forwarded.word, n.combine);
  return l;
}

/// The axes that leave the result partial: those of reduced factors, unless rows are sent over them.
constexpr axis_set reduced_axes(const strategy& s) {
  return s.over.word == 0 ? 0u : s.over.sharded_bits() & ~unsigned{s.sent.word};
}
/// The axes over which no partial sum may be forwarded: they shard the result or a reduced dim.
constexpr unsigned dividing_axes(const strategy& s) {
  return s.over.word == 0 ? s.out.sharded_bits() : s.out.sharded_bits() | s.over.sharded_bits();
}

/// Sets the partial axes of the result from the rest of the strategy.
constexpr void derive_unreduced(const node& n, strategy& s) {
  s.out.word &= layout::dims_mask;
  unsigned partial = s.forwarded.word;
  if (s.over.word != 0) partial |= s.over.sharded_bits() & ~unsigned{s.sent.word};
  if (partial != 0) s.out.set_partial(partial, n.combine);
}

}} // namespace cleave::v0
