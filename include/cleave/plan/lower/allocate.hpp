// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/buffers.hpp>
#include <cleave/program/program_view.hpp>

#include <utility>

namespace cleave { inline namespace v0 { namespace lowering {

/// From which step to which a piece of memory is in use.
struct lifetime {
  std::size_t first_written = none, last_read = 0;
};

/// The beginning and the end of each loop, in the order of the beginnings.
struct stretch {
  std::size_t begin, end;
};
constexpr indexed_vector<stretch> stretches_of_loops(const indexed_vector<step>& steps) {
  indexed_vector<stretch> loops;
  const std::size_t count = steps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const step_kind kind = steps[i].kind;
    if (kind == step_kind::loop_begin) loops.push_back({i, 0});
    if (kind != step_kind::loop_end) continue;
    for (std::size_t l = loops.size(); l-- > 0;)
      if (loops[l].end == 0) {
        loops[l].end = i;
        break;
      }
  }
  return loops;
}

/// When each piece of memory is in use. If it lives beyond a loop that uses it, it is in use in all of its iterations.
constexpr indexed_vector<lifetime> lifetimes_of(const emitted& e) {
  const indexed_vector<step>& steps = e.made.steps;
  indexed_vector<lifetime> lives(e.storages.size(), lifetime{});
  const std::size_t count = steps.size();
  const std::size_t* memory = e.memory.data();
  for (std::size_t i = 0; i < count; ++i) {
    const step& s = steps[i];
    for (std::size_t k = 0; k < s.in.count; ++k) lives[memory[s.in.items[k]]].last_read = i;
    if (!writes(s)) continue;
    // The results of a pass are written together.
    lifetime& life = lives[memory[s.out]];
    life.last_read = s.kind == step_kind::map ? end_of_joined(steps, i) - 1 : i;
    if (life.first_written == none) life.first_written = i;
  }
  const indexed_vector<stretch> loops = stretches_of_loops(steps);
  lifetime* all = lives.data();
  const std::size_t pieces = lives.size();
  for (std::size_t l = loops.size(); l-- > 0;)
    for (std::size_t p = 0; p < pieces; ++p) {
      lifetime& life = all[p];
      const std::size_t begin = loops[l].begin, end = loops[l].end;
      const bool meets = life.first_written != none && life.first_written <= end && life.last_read >= begin;
      if (!meets || (life.first_written > begin && life.last_read < end)) continue;
      if (begin < life.first_written) life.first_written = begin;
      if (end > life.last_read) life.last_read = end;
    }
  return lives;
}

/// The slots of the workspace while they are given away.
struct slots {
  indexed_vector<std::int64_t> bytes{};
  indexed_vector<std::size_t> busy_until{};

  constexpr std::size_t size() const { return bytes.size(); }
};

/// The slot of an operand that a map, a kernel in place, or a product as its addend, reads for the last time and may
/// write over, since element i of the result needs element i of it alone; `none` if there is no such operand. Memory
/// that was just read is in the cache. Of a pass with several results, each overwrites another operand.
constexpr std::size_t slot_in_place(const emitted& e, const indexed_vector<lifetime>& lives, std::size_t i) {
  const step& s = e.made.steps[i];
  const bool kernel = s.kind == step_kind::call && s.user->in_place;
  if (s.kind != step_kind::map && !is_scaled(s) && !kernel) return none;
  const std::size_t last = s.kind == step_kind::map ? end_of_joined(e.made.steps, i) - 1 : i;
  const auto is_taken = [&](std::size_t slot) {
    for (std::size_t k = i; is_in_pass(e.made.steps[k]); --k)
      if (const storage& other = e.storages[e.memory[e.made.steps[k - 1].out]];
          other.role == role::workspace && other.index == slot)
        return true;
    return false;
  };
  const auto pointwise = [&](std::uint16_t b) {
    const buffer& from = e.made.buffers[b];
    return from.form == form::shard && same_order(from.type, s.loop) &&
           from.type.element == e.made.buffers[s.out].type.element;
  };
  for (std::uint16_t b : s.in) {
    const std::size_t memory = e.memory[b];
    if (e.storages[memory].role != role::workspace || lives[memory].last_read != last || !pointwise(b)) continue;
    bool safe = !is_taken(e.storages[memory].index);
    for (std::uint16_t other : s.in) {
      const buffer& view = e.made.buffers[other];
      const bool around = view.form == form::view && e.memory[e.made.buffers[view.of].of] == memory &&
                          e.made.buffers[view.of].form == form::halo;
      safe = safe && !around && (e.memory[other] != memory || pointwise(other));
    }
    for (std::size_t k = 1; kernel && k < s.in.size(); ++k) safe = safe && e.memory[s.in[k]] != memory;
    if (s.kind == step_kind::gemm) safe = safe && e.memory[s.in[0]] != memory && e.memory[s.in[1]] != memory;
    if (safe && e.made.buffers[s.out].form != form::halo) return e.storages[memory].index;
  }
  return none;
}

/// The free slot whose size fits best; a new one if none is free. To grow a slot costs, to waste half of one less.
constexpr std::size_t best_slot(slots& all, std::int64_t bytes, std::size_t i) {
  std::size_t best = none;
  std::int64_t least = 0;
  const std::int64_t* sizes = all.bytes.data();
  const std::size_t* busy_until = all.busy_until.data();
  const std::size_t count = all.size();
  for (std::size_t k = 0; k < count; ++k) {
    if (busy_until[k] >= i) continue;
    const std::int64_t distance = sizes[k] > bytes ? sizes[k] - bytes : 2 * (bytes - sizes[k]);
    if (best != none && distance >= least) continue;
    best = k;
    least = distance;
  }
  if (best != none) return best;
  all.bytes.push_back(0);
  all.busy_until.push_back(0);
  return count;
}

/// Gives every buffer its memory: workspace by lifetime, a slot being reused once the last step that reads it is over.
constexpr program allocate(emitted&& e) {
  const indexed_vector<lifetime> lives = lifetimes_of(e);
  const indexed_vector<step>& steps = e.made.steps;
  slots all;
  const auto assign = [&](std::size_t memory, std::size_t i, bool is_written) {
    storage& s = e.storages[memory];
    if (s.assigned || lives[memory].first_written != i) return;
    std::size_t slot = is_written ? slot_in_place(e, lives, i) : none;
    if (slot == none) slot = best_slot(all, s.bytes, i);
    if (s.bytes > all.bytes[slot]) all.bytes[slot] = s.bytes;
    all.busy_until[slot] = lives[memory].last_read;
    s.index = narrowed(slot);
    s.assigned = true;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (writes(steps[i])) assign(e.memory[steps[i].out], i, true);
    if (steps[i].kind != step_kind::loop_begin) continue;
    for (std::size_t memory = 0; memory < e.storages.size(); ++memory) assign(memory, i, false);
  }
  e.made.slots = narrowed(all.size());
  for (std::size_t b = 0; b < e.made.buffers.size(); ++b) {
    e.made.buffers[b].role = e.storages[e.memory[b]].role;
    e.made.buffers[b].index = e.storages[e.memory[b]].index;
  }
  return std::move(e.made);
}

}}} // namespace cleave::v0::lowering
