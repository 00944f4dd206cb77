// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/bring_together.hpp>
#include <cleave/plan/overlap.hpp>
#include <cleave/plan/placed_pieces.hpp>

#include <utility>

namespace cleave {

namespace detail {

/// Turns a graph with strategies into steps over buffers. First the values of the partitioned program in single
/// assignment (computed, moved or renamed), then fusion of elementwise chains, then steps, then storage.
struct lowering : placed_pieces {
  using placed_pieces::placed_pieces;

  constexpr std::uint8_t load(step& s, int buffer) const {
    for (std::size_t i = 0; i < s.in.size(); ++i)
      if (s.in[i] == buffer) return static_cast<std::uint8_t>(i);
    s.in.push_back(static_cast<std::uint16_t>(buffer));
    return static_cast<std::uint8_t>(s.in.size() - 1);
  }

  /// Appends the computation of a piece to the tape of a step; the index of its value.
  constexpr std::uint8_t record(step& s, std::size_t i, bool root) {
    const piece& p = pieces[i];
    for (const auto& [piece, entry] : recorded)
      if (piece == i) return entry;
    tape_op t;
    t.type = p.type.element;
    if (p.looks_around && (root || p.fused)) {
      t.code = op::input;
      t.arg = load(s, view_of(i));
    } else if (!root && !p.fused && !p.free) {
      t.code = op::input;
      t.arg = load(s, buffer_of(i));
    } else {
      const node& n = node_at(p.node);
      // To run along more dims is to be read with stride 0.
      if (n.code == op::broadcast || class_of(n.code) == op_class::loop) return record(s, p.in[0], false);
      t.code = n.code == op::dot ? op::mul : n.code;
      t.scalar = n.scalar;
      t.user = n.user;
      t.over = n.over;
      t.line = n.where.line <= 0xFFFFu ? static_cast<std::uint16_t>(n.where.line) : std::uint16_t{0};
      if (n.code == op::iota) t.arg = static_cast<std::uint8_t>(s.loop.find(n.which[0]));
      for (int k = 0; k < p.arity; ++k)
        t.in[static_cast<std::size_t>(k)] = record(s, p.in[static_cast<std::size_t>(k)], false);
      // A user's function takes three numbers, whatever it needs.
      for (int k = p.arity; k < 3 && n.code == op::user; ++k) t.in[static_cast<std::size_t>(k)] = t.in[0];
    }
    s.tape.push_back(t);
    recorded.push_back({i, static_cast<std::uint8_t>(s.tape.size() - 1)});
    return recorded.back().second;
  }
  /// The pieces on the tape of the step at hand, and their entries.
  std::vector<std::pair<std::size_t, std::uint8_t>> recorded{};

  constexpr layout loop_layout(const piece& p, const tensor_type& loop) const {
    layout space = p.where.reduced();
    int r = 0;
    for (int i = p.type.rank; i < loop.rank; ++i) space.set(i, chosen[p.node].over[r++]);
    return space;
  }

  constexpr step step_of(std::size_t i) {
    const piece& p = pieces[i];
    const node& n = node_at(p.node);
    step s;
    s.code = n.origin;
    s.gradient = n.gradient;
    s.node = p.node;
    s.where = n.where;
    s.in_loop = p.loop;
    if (p.how == made_by::move) {
      s.kind = step_kind::move;
      s.move = p.by.move;
      s.axes = p.by.axes;
      s.combine = pieces[p.in[0]].where.unreduced() != 0 ? pieces[p.in[0]].where.combine() : p.where.combine();
      s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[0])));
    } else if (n.code == op::dot && n.over != 0) {
      s.kind = step_kind::gemm;
      const tensor_type &a = pieces[p.in[0]].type, &b = pieces[p.in[1]].type;
      for (int d = 0; d < p.type.rank; ++d) {
        const dim_id id = p.type[d];
        (a.has(id) ? b.has(id) ? s.batch : s.m : s.n).append(id);
      }
      for (int d = 0; d < a.rank; ++d)
        if ((n.over & dim_bit(a[d])) != 0) s.k.append(a[d]);
      s.loop = p.type;
      s.space = p.where;
      s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[0])));
      s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[1])));
    } else if (p.how == made_by::region) {
      const region_shape& shape = around.regions[p.region].shape;
      s.kind = step_kind::exchange;
      s.axes = fetched_over(shape);
      s.region_parts = shape.parts;
      s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[0])));
      s.first_map = static_cast<std::uint16_t>(out.maps.size());
      s.maps = static_cast<std::uint8_t>(shape.maps.size());
      for (const dim_map& m : shape.maps) {
        dim_map itself;
        itself.from = itself.to = m.from;
        itself.outside = m.outside;
        out.maps.push_back(itself);
      }
    } else if (class_of(n.code) == op_class::remap && !p.looks_around) {
      s.kind = step_kind::exchange;
      s.first_map = n.first_map;
      s.maps = n.maps;
      for (int k = 0; k < p.arity; ++k) {
        s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[static_cast<std::size_t>(k)])));
        const piece& from = pieces[p.in[static_cast<std::size_t>(k)]];
        s.axes = static_cast<axis_set>(s.axes | fetched_over(part_of(maps_of(g, n), static_cast<std::uint8_t>(k), from.type, from.where, p.type, p.where)));
      }
    } else if (n.code == op::scatter) {
      s.kind = step_kind::scatter;
      s.k.append(n.which[0]);
      for (int k = 0; k < 2; ++k) s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[static_cast<std::size_t>(k)])));
      s.axes = chosen[p.node].sent;
      if (s.axes != 0) s.move = kind::exchange;
    } else if (n.code == op::gather) {
      s.kind = step_kind::gather;
      s.k.append(n.which[0]);
      for (int k = 0; k < 2; ++k) s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[static_cast<std::size_t>(k)])));
      s.axes = chosen[p.node].taken[0].mask();
      if (s.axes != 0) s.move = kind::exchange;
    } else if (n.code == op::cumulative) {
      s.kind = step_kind::scan;
      s.combine = n.combine;
      s.backwards = n.backwards;
      s.exclusive = n.exclusive;
      s.k.append(n.which[0]);
      s.axes = p.where[p.type.find(n.which[0])].mask();
      if (s.axes != 0) s.move = kind::scan;
      s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[0])));
    } else if (n.code == op::sort || n.code == op::argsort) {
      s.kind = step_kind::sort;
      s.backwards = n.backwards;
      s.indices = n.code == op::argsort;
      s.k.append(n.which[0]);
      s.axes = p.where[p.type.find(n.which[0])].mask();
      if (s.axes != 0) s.move = kind::exchange;
      s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[0])));
    } else if (n.code == op::call) {
      s.kind = step_kind::call;
      s.user = n.user;
      s.loop = p.type;
      s.space = p.where;
      for (int k = 0; k < p.arity; ++k) s.in.push_back(static_cast<std::uint16_t>(buffer_of(p.in[static_cast<std::size_t>(k)])));
    } else {
      s.kind = n.code == op::reduce ? step_kind::fold : step_kind::map;
      s.loop = loop_of(p);
      s.space = loop_layout(p, s.loop);
      s.folded = static_cast<std::uint8_t>(s.loop.rank - p.type.rank);
      s.combine = n.combine;
      recorded.clear();
      if (n.code == op::reduce) record(s, p.in[0], false);
      else record(s, i, true);
    }
    if (s.kind == step_kind::exchange && s.axes != 0) s.move = kind::exchange;
    s.out = static_cast<std::uint16_t>(buffer_of(i));
    return s;
  }

  constexpr void make_step(std::size_t i) {
    const piece& p = pieces[i];
    if (p.fused || p.how == made_by::rename || p.how == made_by::slice || p.uses == 0) return;
    if (p.how == made_by::node && node_at(p.node).code == op::input) return;
    out.steps.push_back(step_of(i));
  }
  constexpr step loop_mark(step_kind what, std::uint8_t loop, std::size_t decides) {
    step s;
    s.kind = what;
    s.in_loop = loop;
    if (decides != no_piece) s.in.push_back(static_cast<std::uint16_t>(buffer_of(decides)));
    return s;
  }
  /// The steps of a stretch of pieces that are part of a loop; those of loops around it are there already.
  constexpr void make_steps_of(std::size_t begin, std::size_t end, std::uint8_t loop) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint8_t in = pieces[i].loop;
      if (in == loop && pieces[i].how != made_by::next) make_step(i);
      if (in == loop || !within(g.loops, in, loop)) continue;
      std::uint8_t inner = in;
      while (g.loops[inner - 1u].around != loop) inner = g.loops[inner - 1u].around;
      std::size_t last = i;
      for (std::size_t j = i; j < end; ++j)
        if (within(g.loops, pieces[j].loop, inner)) last = j;
      // What does not change from trip to trip comes first.
      for (std::size_t j = i; j < last; ++j)
        if (pieces[j].loop == loop) make_step(j);
      out.steps.push_back(loop_mark(step_kind::loop_begin, inner, trips[inner]));
      make_steps_of(i, last + 1, inner);
      // Carried values go on when nothing reads them any more.
      for (std::size_t j = i; j <= last; ++j)
        if (pieces[j].loop == inner && pieces[j].how == made_by::next) make_step(j);
      out.steps.push_back(loop_mark(step_kind::loop_end, inner, until[inner]));
      i = last;
    }
  }
  constexpr void make_steps() {
    make_steps_of(0, pieces.size(), 0);
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (written_in_place(r)) continue;
      const piece& p = pieces[results[r]];
      // The result is an argument, another result, or wanted in another memory order: copied.
      step c;
      c.kind = step_kind::map;
      c.code = op::reshard;
      c.node = p.node;
      c.where = node_at(p.node).where;
      const buffer& to = out.buffers[g.inputs.size() + r];
      c.loop = to.type;
      c.space = to.where.reduced();
      c.in.push_back(static_cast<std::uint16_t>(buffer_of(results[r])));
      tape_op t;
      t.code = op::input;
      t.type = c.loop.element;
      c.tape.push_back(t);
      c.out = static_cast<std::uint16_t>(g.inputs.size() + r);
      out.steps.push_back(c);
    }
  }

  /// The slot of an operand that a map reads for the last time and may write over, since element i of the result needs element i
  /// of it alone; `none` where there is no such operand. Memory that was just read is in the cache.
  constexpr std::size_t slot_in_place(std::size_t i, std::size_t none) const {
    const step& s = out.steps[i];
    if (s.kind != step_kind::map) return none;
    const auto pointwise = [&](std::uint16_t b) {
      const tensor_type& t = out.buffers[b].type;
      return out.buffers[b].form == form::shard && same_dims(t, s.loop) && t.element == out.buffers[s.out].type.element;
    };
    for (std::uint16_t b : s.in) {
      const std::size_t memory = buffer_storage[b];
      if (storages[memory].role != role::workspace || storages[memory].last_read != i || !pointwise(b)) continue;
      bool safe = true;
      for (std::uint16_t other : s.in) safe = safe && (buffer_storage[other] != memory || pointwise(other));
      if (safe) return storages[memory].index;
    }
    return none;
  }

  /// From which step to which each storage is in use. What lives beyond a loop that uses it is in use during all of its trips.
  constexpr void find_lifetimes() {
    constexpr std::size_t never = ~std::size_t{0};
    for (storage_of& s : storages) s.first_written = never;
    for (std::size_t i = 0; i < out.steps.size(); ++i) {
      for (std::uint16_t b : out.steps[i].in) storages[buffer_storage[b]].last_read = i;
      if (!writes(out.steps[i])) continue;
      storage_of& s = storages[buffer_storage[out.steps[i].out]];
      s.last_read = i;
      if (s.first_written == never) s.first_written = i;
    }
    std::vector<std::array<std::size_t, 2>> loops;
    for (std::size_t i = 0; i < out.steps.size(); ++i) {
      if (out.steps[i].kind == step_kind::loop_begin) loops.push_back({i, 0});
      if (out.steps[i].kind != step_kind::loop_end) continue;
      for (std::size_t l = loops.size(); l-- > 0;)
        if (loops[l][1] == 0) {
          loops[l][1] = i;
          break;
        }
    }
    for (std::size_t l = loops.size(); l-- > 0;)
      for (storage_of& s : storages) {
        const auto [begin, end] = loops[l];
        if (s.first_written == never || s.first_written > end || s.last_read < begin || (s.first_written > begin && s.last_read < end)) continue;
        s.first_written = std::min(s.first_written, begin);
        s.last_read = std::max(s.last_read, end);
      }
  }

  /// Workspace slots by lifetime: a slot is taken again once the last step that reads it is over; of the free ones the
  /// one whose size fits best.
  constexpr void assign_slots() {
    find_lifetimes();
    std::vector<std::int64_t> slot_bytes;
    std::vector<std::size_t> busy_until;
    const auto assign = [&](std::size_t memory, std::size_t i) {
      storage_of& s = storages[memory];
      std::size_t best = writes(out.steps[i]) && buffer_storage[out.steps[i].out] == memory ? slot_in_place(i, slot_bytes.size()) : slot_bytes.size();
      const bool in_place = best != slot_bytes.size();
      for (std::size_t k = 0; k < slot_bytes.size(); ++k) {
        if (in_place || busy_until[k] >= i) continue;
        const auto distance = [&](std::size_t slot) {
          return slot_bytes[slot] > s.bytes ? slot_bytes[slot] - s.bytes : 2 * (s.bytes - slot_bytes[slot]);
        };
        if (best == slot_bytes.size() || distance(k) < distance(best)) best = k;
      }
      if (best == slot_bytes.size()) {
        slot_bytes.push_back(0);
        busy_until.push_back(0);
      }
      if (s.bytes > slot_bytes[best]) slot_bytes[best] = s.bytes;
      busy_until[best] = s.last_read;
      s.index = static_cast<std::uint16_t>(best);
      s.assigned = true;
    };
    for (std::size_t i = 0; i < out.steps.size(); ++i) {
      if (writes(out.steps[i]))
        if (const std::size_t memory = buffer_storage[out.steps[i].out]; !storages[memory].assigned && storages[memory].first_written == i) assign(memory, i);
      if (out.steps[i].kind != step_kind::loop_begin) continue;
      for (std::size_t memory = 0; memory < storages.size(); ++memory)
        if (!storages[memory].assigned && storages[memory].first_written == i) assign(memory, i);
    }
    out.slots = static_cast<std::uint16_t>(slot_bytes.size());
    for (std::size_t b = 0; b < out.buffers.size(); ++b) {
      out.buffers[b].role = storages[buffer_storage[b]].role;
      out.buffers[b].index = storages[buffer_storage[b]].index;
    }
  }

  constexpr void run() {
    out.mesh = g.mesh;
    out.dims = g.dims;
    out.rules = g.rules;
    out.maps = g.maps;
    out.loops = g.loops;
    out.arguments = static_cast<std::uint16_t>(g.inputs.size());
    out.results = static_cast<std::uint16_t>(g.outputs.size());
    make_pieces();
    find_results();
    fuse();
    place();
    make_outer_buffers();
    make_steps();
    bring_reduces_together(out.steps, out.buffers, buffer_storage);
    detail::overlap_exchanges(out.steps, out.maps, buffer_storage);
    assign_slots();
  }
};

} // namespace detail

/// The steps of a graph under given strategies.
constexpr program lower(const graph& g, const std::vector<strategy>& chosen, const sizes& at, const policy& rule) {
  detail::lowering l(g, chosen, at, rule);
  l.run();
  return static_cast<program&&>(l.out);
}

} // namespace cleave
