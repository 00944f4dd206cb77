// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/program.hpp>

#include <array>
#include <concepts>
#include <cstddef>

namespace cleave { inline namespace v0 {

/// A program as everybody reads it, whether its lists are vectors or arrays of a constant. It is small and refers to
/// the program, which must live as long.
struct program_view {
  const program_facts& facts;
  indexed_span<const buffer> buffers;
  indexed_span<const step> steps;
  indexed_span<const dim_map> maps;
  indexed_span<const fused_op> fused_ops;
  indexed_span<const index_bound> bounds;
  const mesh_value& mesh = facts.mesh;
  const dim_table& dims = facts.dims;
  const extent_rules& rules = facts.rules;
  const loop_list& loops = facts.loops;
  std::size_t arguments = facts.arguments, results = facts.results, slots = facts.slots;

  constexpr program_view(const program_facts& f, indexed_span<const buffer> b, indexed_span<const step> s,
                         indexed_span<const dim_map> m, indexed_span<const fused_op> t,
                         indexed_span<const index_bound> i)
      : facts(f), buffers(b), steps(s), maps(m), fused_ops(t), bounds(i) {}
  /// Of a program or a frozen program.
  template <class Program>
    requires std::derived_from<Program, program_facts>
  constexpr program_view(const Program& p) : program_view(p, p.buffers, p.steps, p.maps, p.fused_ops, p.bounds) {}
};

/// The expression of a map, a fold or a scaled product of a program; of other steps empty.
template <class Program>
constexpr indexed_span<const fused_op> fused_ops_of(const Program& p, const step& s) {
  return indexed_span<const fused_op>(p.fused_ops).subspan(s.first_op, s.ops);
}

/// The bounds of the boxes of a map, and the operations of a box; `end`: its last bound.
constexpr indexed_span<const index_bound> bounds_of(const program_view& p, const step& s) {
  return p.bounds.subspan(s.first_bound, s.bounds);
}
constexpr indexed_span<const fused_op> fused_ops_of(const program_view& p, const index_bound& end) {
  return p.fused_ops.subspan(end.first_op, end.ops);
}

/// Exchanges that share messages, or maps of one pass: of step `i`, which is one of them, the first, and the step after
/// the last.
constexpr std::size_t first_joined(indexed_span<const step> steps, std::size_t i) {
  while (i > 0 && steps[i].joined) --i;
  return i;
}
constexpr std::size_t end_of_joined(indexed_span<const step> steps, std::size_t i) {
  ++i;
  while (i < steps.size() && steps[i].joined) ++i;
  return i;
}

/// The maps that run in one pass with step `i`, the first of them; of another step, the step alone.
constexpr indexed_span<const step> pass_of(indexed_span<const step> steps, std::size_t i) {
  return steps.subspan(i, steps[i].kind == step_kind::map ? end_of_joined(steps, i) - i : std::size_t{1});
}
/// Whether a step is a map that runs in one pass with the step before it.
constexpr bool is_in_pass(const step& s) { return s.kind == step_kind::map && s.joined; }

/// The role of an exchange among those that share messages.
enum class exchange_role : std::uint8_t { alone, first, joined };
constexpr exchange_role exchange_role_of(const program_view& p, std::size_t i) {
  if (p.steps[i].joined) return exchange_role::joined;
  return end_of_joined(p.steps, i) > i + 1 ? exchange_role::first : exchange_role::alone;
}

/// Whether a step is the first of a pipelined pair (step::pieces).
constexpr bool goes_first(const program_view& p, std::size_t i) {
  return i + 1 < p.steps.size() && go_together(p.steps[i], p.steps[i + 1]);
}

/// Whether a buffer is the view through which an operation reads a shard and its halo.
constexpr bool is_around_shard(const program_view& p, const buffer& b) {
  return b.form == form::view && p.buffers[b.of].form == form::halo;
}

/// A program of fixed size, for a constant.
template <std::size_t Buffers, std::size_t Steps, std::size_t Maps, std::size_t Ops, std::size_t Bounds = 0>
struct frozen_program : program_facts {
  std::array<buffer, Buffers> buffers{};
  std::array<step, Steps> steps{};
  std::array<dim_map, Maps> maps{};
  std::array<fused_op, Ops> fused_ops{};
  std::array<index_bound, Bounds> bounds{};
};

/// A program whose lists may be shorter than the arrays that hold them, because their lengths are known only once it is
/// made.
template <std::size_t Buffers, std::size_t Steps, std::size_t Maps, std::size_t Ops, std::size_t Bounds = 0>
struct roomy_program {
  frozen_program<Buffers, Steps, Maps, Ops, Bounds> all{};
  std::size_t buffers = 0, steps = 0, maps = 0, ops = 0, bounds = 0;

  constexpr program_view view() const {
    return {all,
            indexed_span(all.buffers).first(buffers),
            indexed_span(all.steps).first(steps),
            indexed_span(all.maps).first(maps),
            indexed_span(all.fused_ops).first(ops),
            indexed_span(all.bounds).first(bounds)};
  }
};

namespace detail {
template <class To, class From>
constexpr void copy_list(To& to, From from) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i];
}
} // namespace detail

/// Writes a program into one of fixed size, whose arrays are at least as long as the lists.
template <class Frozen>
constexpr void freeze_into(Frozen& f, const program_view& p) {
  static_cast<program_facts&>(f) = p.facts;
  detail::copy_list(f.buffers, p.buffers);
  detail::copy_list(f.steps, p.steps);
  detail::copy_list(f.maps, p.maps);
  detail::copy_list(f.fused_ops, p.fused_ops);
  detail::copy_list(f.bounds, p.bounds);
}

/// A copy with run-time length, for tools that change it.
constexpr program thawed(const program_view& p) {
  program t;
  static_cast<program_facts&>(t) = p.facts;
  t.buffers.assign(p.buffers.data(), p.buffers.data() + p.buffers.size());
  t.steps.assign(p.steps.data(), p.steps.data() + p.steps.size());
  t.maps.assign(p.maps.data(), p.maps.data() + p.maps.size());
  t.fused_ops.assign(p.fused_ops.data(), p.fused_ops.data() + p.fused_ops.size());
  t.bounds.assign(p.bounds.data(), p.bounds.data() + p.bounds.size());
  return t;
}

// Facts of a step that its kernel's type depends on.

/// Which loop dim is innermost, and how each operand moves along it.
struct inner_dim {
  /// Position in the loop, -1 if the loop has no dims.
  int position = -1;
  bool folded = false;
  /// 0: stays; 1: contiguous; 2: some other stride.
  std::array<unsigned, max_operands> stride{};
};

namespace detail {
/// 0: a buffer does not have the dim; 1: its elements are adjacent along it; 2: they are further apart.
template <class Buffers, class Maps>
constexpr unsigned stride_kind(const buffer& b, dim_id d, const Buffers& buffers, const Maps& maps) {
  const int at = b.type.find(d);
  if (at < 0) return 0;
  if (b.form != form::view) return at == b.type.rank - 1 ? 1 : 2;
  const tensor_type& region = buffers[b.of].type;
  for (unsigned m = 0; m < b.maps; ++m) {
    const dim_map& map = maps[b.first_map + m];
    const bool inner = region[region.rank - 1] == map.from;
    if (map.to == d) return inner && map.stride == 1 ? 1 : 2;
    if (map.window == d) return inner && map.dilation == 1 ? 1 : 2;
  }
  return region[region.rank - 1] == d ? 1 : 2;
}
} // namespace detail

/// A map runs along the last dim of its result. A fold runs along the last dim of its largest operand, so that whatever
/// is reduced, memory is read in order.
template <class Buffers, class Maps>
[[gnu::cold]] constexpr inner_dim inner_dim_of(const step& s, const Buffers& buffers, const Maps& maps) {
  inner_dim inner;
  inner.position = s.loop.rank - 1;
  if (s.kind == step_kind::fold) {
    int rank = 0;
    for (std::uint16_t b : s.in)
      if (buffers[b].type.rank > rank) {
        rank = buffers[b].type.rank;
        inner.position = s.loop.find(buffers[b].type[rank - 1]);
      }
  }
  inner.folded = inner.position >= s.loop.rank - s.folded;
  for (std::size_t k = 0; k < s.in.size(); ++k) {
    inner.stride[k] = inner.position < 0 ? 0
                                         : detail::stride_kind(buffers[s.in[k]], s.loop[inner.position], buffers, maps);
  }
  return inner;
}

}} // namespace cleave::v0
