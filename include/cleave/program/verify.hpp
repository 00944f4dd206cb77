// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/graph/verify.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 {

/// Memory that no step may write: that of an argument.
inline constexpr std::size_t read_only_memory = ~std::size_t{0};

namespace detail {

/// The memory of each buffer: results, then slots.
constexpr indexed_vector<std::size_t> memory_of_buffers(const program& p) {
  indexed_vector<std::size_t> memory;
  memory.reserve(p.buffers.size());
  for (const buffer& b : p.buffers)
    memory.push_back(b.role == role::input ? read_only_memory : b.role == role::output ? b.index : p.results + b.index);
  return memory;
}

/// The contents of memory while the steps of a program run.
struct memory_state {
  const program& p;
  const std::size_t* memory;
  /// By memory: the buffer that was written last; -1: nothing yet, or it is being written.
  indexed_vector<int> last{};
  /// The steps in which exchanges and moves began that are not over.
  indexed_vector<std::size_t> in_flight{};
};

/// Views of one piece of memory under other dims hold the same elements.
constexpr bool can_read(const memory_state& m, std::uint16_t b) {
  if (b >= m.p.buffers.size()) return false;
  const std::size_t memory = m.memory[b];
  if (memory == read_only_memory) return true;
  const int have = m.last[memory];
  const buffer* buffers = m.p.buffers.data();
  return have >= 0 && buffers[have].type.element == buffers[b].type.element;
}
/// An exchange or move in flight writes its result at its wait.
constexpr bool end_exchange(memory_state& m, const step& wait) {
  const auto begun = std::ranges::find(m.in_flight, wait.begun);
  if (begun == m.in_flight.end()) return false;
  m.in_flight.erase(begun);
  const std::uint16_t brought = m.p.steps[wait.begun].out;
  int& last = m.last[m.memory[brought]];
  if (last >= 0) return false;
  last = brought;
  return true;
}
/// Whether a step may write over operand `k`: element by element, as an all-reduce in place, or as a kernel of the user
/// that works in place.
constexpr bool works_in_place(const step& s, std::size_t k) {
  if (s.kind == step_kind::call) return s.user->in_place && k == 0;
  return s.kind == step_kind::map || s.move == kind::all_reduce || (is_scaled(s) && k >= 2);
}
/// Whether a map can run in one pass with the step before it: they have the same loop, operands and list of operations,
/// and no map of the pass reads the result of another one or writes to its memory.
constexpr bool can_be_in_pass(const memory_state& m, std::size_t i) {
  const step& s = m.p.steps[i];
  for (std::size_t k = i; k > 0 && is_in_pass(m.p.steps[k]); --k) {
    const step& before = m.p.steps[k - 1];
    if (m.memory[before.out] == m.memory[s.out] || before.in.contains(s.out) || s.in.contains(before.out)) return false;
  }
  if (i == 0 || i - first_joined(m.p.steps, i) >= max_results) return false;
  const step& before = m.p.steps[i - 1];
  return before.kind == step_kind::map && before.in == s.in && before.first_op == s.first_op && before.ops < s.ops &&
         before.loop == s.loop && before.space == s.space && before.in_loop == s.in_loop &&
         m.p.buffers[before.out].type.element == m.p.buffers[s.out].type.element;
}
/// Whether a step can share the messages of the step before it: both are exchanges in flight together, of halos or of
/// the same devices.
constexpr bool can_be_joined(const program& p, std::size_t i) {
  const step& s = p.steps[i];
  if (i == 0 || s.kind != step_kind::exchange || !s.in_flight) return false;
  const step& before = p.steps[i - 1];
  const bool halos = p.buffers[before.out].form == form::halo && p.buffers[s.out].form == form::halo;
  return before.kind == step_kind::exchange && before.in_flight && before.move == s.move &&
         before.in_loop == s.in_loop && s.move == cleave::kind::exchange && (before.axes == s.axes || halos);
}
/// Writes no argument, nothing that the step reads elsewhere, and nothing that an exchange in flight reads or writes.
constexpr bool write(memory_state& m, std::size_t i) {
  const step& s = m.p.steps[i];
  if (s.out >= m.p.buffers.size() || m.memory[s.out] == read_only_memory) return false;
  const std::size_t target = m.memory[s.out];
  if (s.keeps && (s.in_flight || !can_read(m, s.out))) return false;
  if (s.joined && !(s.kind == step_kind::map ? can_be_in_pass(m, i) : can_be_joined(m.p, i))) return false;
  for (std::size_t k = 0; k < s.in.count; ++k) {
    if (m.memory[s.in.items[k]] == target && !works_in_place(s, k)) return false;
    const buffer& view = m.p.buffers[s.in.items[k]];
    if (view.form != form::view || m.p.buffers[view.of].form != form::halo) continue;
    // Neighbours in a shard are read as long as anything is written, and from where the step says that it reads.
    const std::uint16_t shard = m.p.buffers[view.of].of;
    if (m.memory[shard] == target || !s.in.contains(shard)) return false;
  }
  for (std::size_t f = 0; f < m.in_flight.size(); ++f) {
    const step& exchange = m.p.steps[m.in_flight[f]];
    if (target == m.memory[exchange.out]) return false;
    for (std::size_t k = 0; k < exchange.in.count; ++k)
      if (target == m.memory[exchange.in.items[k]]) return false;
  }
  m.last[target] = s.in_flight ? -1 : as_int(s.out);
  if (s.in_flight) m.in_flight.push_back(i);
  return true;
}

/// Whether a step is legal for its kind, apart from the memory that it touches.
constexpr bool is_legal(const program& p, const step& s) {
  const std::size_t end = s.first_op + std::size_t{s.ops};
  if (end > p.fused_ops.size()) return false;
  const fused_op* const fused_ops = p.fused_ops.data();
  for (std::size_t i = s.first_op; i < end; ++i)
    if (fused_ops[i].code == op::input && (fused_ops[i].arg >= s.in.count || (is_scaled(s) && fused_ops[i].arg == 1)))
      return false;
  if (s.kind != step_kind::move) return !s.in_flight || s.kind == step_kind::exchange;
  if (s.in_flight && (s.pieces != 0 || !is_collective(s))) return false;
  const buffer &from = p.buffers[s.in[0]], &to = p.buffers[s.out];
  return from.type == to.type && cleave::is_legal({s.move, s.axes, to.where}, from.where);
}

/// Whether a pipelined step is adjacent to its partner, in the same loop. A move takes part in one pair, and so does a
/// product.
constexpr bool has_partner(const program& p, std::size_t i) {
  const step& s = p.steps[i];
  const bool first = i + 1 < p.steps.size() && go_together(s, p.steps[i + 1]);
  const bool second = i > 0 && go_together(p.steps[i - 1], s);
  if (first == second) return false;
  return s.in_loop == p.steps[first ? i + 1 : i - 1].in_loop;
}

} // namespace detail

/// Whether the steps of a program can run in their order. `memory` says in which memory each buffer is. Every step
/// reads buffers that an argument or an earlier step has written and nothing has overwritten, and writes no argument;
/// every result is written. An exchange or a move in flight writes its result at its wait, and its operand stays until
/// then; it is over before its loop ends. Exchanges that share messages begin one right after the other.
constexpr bool verify_steps(const program& p, const indexed_vector<std::size_t>& memory) {
  std::size_t most = 0;
  const std::size_t* of_buffer = memory.data();
  const std::size_t buffers = memory.size(), steps = p.steps.size();
  for (std::size_t b = 0; b < buffers; ++b)
    if (of_buffer[b] != read_only_memory && of_buffer[b] >= most) most = of_buffer[b] + 1;
  detail::memory_state state{p, of_buffer, indexed_vector<int>(most, -1)};
  for (std::size_t i = 0; i < steps; ++i) {
    const step& s = p.steps[i];
    if (s.kind == step_kind::wait) {
      if (!detail::end_exchange(state, s)) return false;
      continue;
    }
    if (s.kind == step_kind::loop_end)
      for (std::size_t f : state.in_flight)
        if (p.steps[f].in_loop == s.in_loop) return false;
    for (std::size_t k = 0; k < s.in.count; ++k)
      if (!detail::can_read(state, s.in.items[k])) return false;
    if (writes(s) && (!detail::write(state, i) || !detail::is_legal(p, s))) return false;
    if (s.pieces != 0 && !detail::has_partner(p, i)) return false;
  }
  if (!state.in_flight.empty()) return false;
  for (std::size_t b = p.arguments; b < as_size(p.arguments) + p.results; ++b)
    if (memory[b] == read_only_memory || state.last[memory[b]] < 0) return false;
  return true;
}

/// Whether a program can run: its steps in their order, with layouts of its mesh, in the memory that it says it needs.
constexpr bool verify(const program& p) {
  if (p.buffers.size() < as_size(p.arguments) + p.results) return false;
  for (const buffer& b : p.buffers) {
    if (b.index >= (b.role == role::input ? p.arguments : b.role == role::output ? p.results : p.slots)) return false;
    if (!verify(b.where, b.type.rank, p.mesh)) return false;
  }
  return verify_steps(p, detail::memory_of_buffers(p));
}

}} // namespace cleave::v0
