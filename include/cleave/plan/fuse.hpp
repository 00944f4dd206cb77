// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/pieces.hpp>

namespace cleave {

namespace detail {

/// Which pieces are computed inside the step of another one.
struct fused_pieces : piece_list {
  using piece_list::piece_list;

  /// The dims that the step computing a piece runs over.
  constexpr tensor_type loop_of(const piece& p) const {
    tensor_type loop = p.type;
    const node& n = node_at(p.node);
    if (n.code == op::reduce) {
      const tensor_type& operand = pieces[p.in[0]].type;
      for (int i = 0; i < operand.rank; ++i)
        if ((n.over & dim_bit(operand[i])) != 0) loop.append(operand[i]);
    }
    return loop;
  }
  /// What is computed by a chain of elementwise ops, which a reduction may end. Without a contracted dim a product is one.
  constexpr bool runs_tape(const piece& p) const {
    if (p.how == made_by::next || p.how == made_by::collect) return true;
    if (p.how != made_by::node) return false;
    if (p.looks_around) return true;
    const node& n = node_at(p.node);
    return is_elementwise(n.code) || n.code == op::carry || n.code == op::reduce || (n.code == op::dot && n.over == 0);
  }

  /// The tape of a step while it is filled: what it computes and what it loads.
  struct chain {
    static_vector<std::size_t, max_tape> members{};
    static_vector<std::size_t, max_operands> loads{};

    constexpr bool fits() const { return members.size() + loads.size() <= max_tape; }
  };
  std::vector<chain> chains{};

  /// Numbers that every reader makes for itself: literals, extents, indices, and what follows from such without a dim.
  constexpr void find_free() {
    for (piece& p : pieces) {
      if (p.how != made_by::node) continue;
      if (p.arity == 0) p.free = source_everywhere(p.node);
      else if (p.type.rank == 0 && is_elementwise(node_at(p.node).code)) {
        p.free = true;
        for (int k = 0; k < p.arity; ++k) p.free = p.free && pieces[p.in[static_cast<std::size_t>(k)]].free;
      }
    }
  }
  constexpr bool take_operand(chain& c, std::size_t i) const {
    if (c.members.contains(i) || c.loads.contains(i)) return true;
    if (!pieces[i].free || pieces[i].looks_around) {
      if (c.loads.full()) return false;
      c.loads.push_back(i);
      return true;
    }
    return take_member(c, i);
  }
  constexpr bool take_member(chain& c, std::size_t i) const {
    if (pieces[i].looks_around) return take_operand(c, i);
    for (int k = 0; k < pieces[i].arity; ++k)
      if (!take_operand(c, pieces[i].in[static_cast<std::size_t>(k)])) return false;
    if (c.members.full()) return false;
    c.members.push_back(i);
    return c.fits();
  }

  /// What looks into a region is read there by chains, each of which loads it itself; others need it as a shard.
  constexpr void find_looks(const std::vector<std::size_t>& step_of_reader, std::size_t many) {
    for (piece& p : pieces) p.fused = p.looks_around;
    for (const piece& p : pieces)
      for (int k = 0; k < p.arity && !runs_tape(p); ++k) pieces[p.in[static_cast<std::size_t>(k)]].fused = false;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (step_of_reader[i] == many) pieces[i].fused = false;
  }

  constexpr std::size_t root_of(std::size_t i) const {
    while (pieces[i].how == made_by::rename) i = pieces[i].in[0];
    return i;
  }
  constexpr bool is_carry(std::size_t i) const { return pieces[i].how == made_by::node && node_at(pieces[i].node).code == op::carry; }
  /// What a carried value becomes may be computed straight into its memory, element by element; from no other one, which may have
  /// gone on already.
  constexpr bool keeps_trips_apart(std::size_t reader, const chain& c) const {
    if (pieces[reader].how != made_by::next) return true;
    for (std::size_t l : c.loads) {
      const std::size_t root = root_of(l);
      if (!is_carry(root) || node_at(pieces[root].node).of != node_at(pieces[reader].node).of) continue;
      if (l != pieces[reader].in[1] || pieces[l].type != pieces[reader].type || pieces[l].where != pieces[reader].where) return false;
    }
    return true;
  }

  /// Decides which pieces are computed inside a step: those all of whose readers are, and in one step. From the results
  /// backwards, as far as a step can hold.
  constexpr void fuse() {
    find_free();
    // The only step that reads a piece, or that there are several, or that something else does.
    constexpr std::size_t none = ~std::size_t{0}, many = none - 1;
    std::vector<std::size_t> step_of_reader(pieces.size(), none);
    for (const piece& p : pieces)
      for (int k = 0; k < p.arity; ++k) ++pieces[p.in[static_cast<std::size_t>(k)]].uses;
    for (piece& p : pieces)
      if (p.how == made_by::next) ++p.uses, ++pieces[p.in[1]].uses;
    for (const auto& deciding : {trips, until})
      for (std::size_t i : deciding)
        if (i != no_piece) {
          ++pieces[i].uses;
          step_of_reader[i] = many;
          if (pieces[i].free) pieces[i].free = false;
        }
    for (std::size_t r : results) {
      ++pieces[r].uses;
      step_of_reader[r] = many;
    }
    find_looks(step_of_reader, many);
    chains.assign(pieces.size(), chain{});
    for (std::size_t i = pieces.size(); i-- > 0;) {
      piece& p = pieces[i];
      const std::size_t reader = step_of_reader[i];
      std::size_t step = i;
      if (p.uses == 0) continue;
      if (p.looks_around) {
        step_of_reader[p.in[0]] = many;
        continue;
      }
      if (p.free) {
        // Made on its own only for a reader that cannot make it.
        p.fused = reader == none;
        if (p.fused) continue;
      } else if (runs_tape(p) && reader < many && node_at(p.node).code != op::reduce && p.type.set() == loop_of(pieces[reader]).set() && p.loop == pieces[reader].loop) {
        chain longer;
        longer.members = chains[reader].members;
        for (std::size_t l : chains[reader].loads)
          if (l != i) longer.loads.push_back(l);
        if (take_member(longer, i) && keeps_trips_apart(reader, longer)) {
          chains[reader] = longer;
          p.fused = true;
          step = reader;
        }
      }
      if (!p.fused && runs_tape(p)) {
        for (int k = 0; k < p.arity; ++k) static_cast<void>(take_operand(chains[i], p.in[static_cast<std::size_t>(k)]));
        if (node_at(p.node).code != op::reduce) chains[i].members.push_back(i);
      }
      for (int k = 0; k < p.arity; ++k) {
        const std::size_t from = p.in[static_cast<std::size_t>(k)];
        std::size_t& of = step_of_reader[from];
        if (!runs_tape(p)) of = many;
        else if (!pieces[from].free) of = of == none || of == step ? step : many;
      }
    }
  }
};

} // namespace detail

} // namespace cleave
