// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/collective.hpp>
#include <cleave/graph/graph.hpp>

#include <bit>

namespace cleave { inline namespace v0 {

/// The kind of a step. The table below has one entry for each.
enum class step_kind : std::uint8_t {
  /// out[loop] = expression(in...): one pass over memory for a chain of elementwise operations.
  map,
  /// out[kept] = reduction of expression(in...) over the last `folded` dims of the loop.
  fold,
  /// out[batch, m, n] = sum over k of in0[batch, m, k] * in1[batch, k, n], with the dims of each group in any memory
  /// order. With an expression: alpha times that, plus beta times an array like the result.
  gemm,
  /// out = a user's kernel on the shards of in...
  call,
  /// out = in0 in another layout; `move` says by which collective.
  move,
  /// out = elements of in... under other indices, as the maps say; 0 if there is none.
  exchange,
  /// out = rows of in0 at the indices in1, along one dim.
  gather,
  /// out = a table of zeros to which the rows in0 are added at the indices in1, along one dim.
  scatter,
  /// out = running totals of in0 along one dim, from the first index or from the last; or recurrences with the factors
  /// in1.
  scan,
  /// out = in0 sorted along one dim, or the indices that its elements had.
  sort,
  /// The exchange or move that began in step `begun` is over: its result may be read, and its operand written again.
  wait,
  /// The steps up to the end run several times: along a dim, or in0 times. They end early if in0 of the end holds.
  loop_begin,
  loop_end,
};

/// One kind of step, one entry.
struct step_kind_entry {
  step_kind kind;
  /// False for marks, which only order other steps.
  bool writes;
  /// Work that may overlap with moves in flight.
  bool computes = false;
  /// Data decides which elements it moves where.
  bool routed = false;
};

namespace detail {
inline constexpr step_kind_entry step_kinds[] = {
    {step_kind::map, true, true},
    {step_kind::fold, true, true},
    {step_kind::gemm, true, true},
    {step_kind::call, true, true},
    {step_kind::move, true},
    {step_kind::exchange, true},
    {step_kind::gather, true, false, true},
    {step_kind::scatter, true, false, true},
    {step_kind::scan, true},
    {step_kind::sort, true, false, true},
    {step_kind::wait, false},
    {step_kind::loop_begin, false},
    {step_kind::loop_end, false},
};
constexpr bool step_kinds_in_order() {
  std::size_t i = 0;
  for (const step_kind_entry& e : step_kinds)
    if (static_cast<std::size_t>(e.kind) != i++) return false;
  return true;
}
static_assert(step_kinds_in_order());
} // namespace detail

constexpr const step_kind_entry& entry_of(step_kind k) { return detail::step_kinds[static_cast<std::size_t>(k)]; }

/// One operation of a fused expression. Its operands are earlier operations of the expression, by index.
/// op::input loads in[arg]; op::constant is `scalar`; op::count is the product of the global extents of the dims in
/// `over` (evaluated when the plan is bound to sizes); op::iota is the global index along dim `arg`. Of op::equal `arg`
/// is 1 or 2 if operand 0 or 1 is a label that the other one, the index along the lines of the step, meets once.
struct fused_op {
  op code = op::constant;
  element type = element::none;
  fixed_array<std::uint16_t, 3> in{};
  std::uint8_t arg = 0;
  /// The line of the user's operation, for checked mode; 0 if it is unknown or does not fit.
  std::uint16_t line = 0;
  double scalar = 0;
  dim_set over = 0;
  /// op::user: the user's function.
  const user_entry* user = nullptr;

  /// Whether both compute the same of the same. Zeros of different signs differ.
  friend constexpr bool operator==(const fused_op& a, const fused_op& b) {
    return a.code == b.code && a.type == b.type && a.in == b.in && a.arg == b.arg && a.over == b.over &&
           a.user == b.user && std::bit_cast<std::uint64_t>(a.scalar) == std::bit_cast<std::uint64_t>(b.scalar);
  }
};

/// A bound of a box of the indices of a map's loop: they are at least `at`, or below it. The bounds of a box are
/// followed by its end, which says the expression that the map evaluates there. Of boxes that overlap the first one
/// counts, and the last one has all indices.
struct index_bound {
  extent_sum at{};
  /// A dim of the loop; -1: 0 is compared instead of an index, so that the extents of a call decide.
  std::int8_t dim = -1;
  bool upper = false, ends = false;
  /// Of an end: the number of the expression among those of the step, and its operations. A resolved expression of a
  /// pass with several results has these last.
  std::uint8_t expression = 0;
  std::uint16_t ops = 0;
  std::uint32_t first_op = 0;
  friend constexpr bool operator==(const index_bound&, const index_bound&) = default;
};
/// How far a sum of a bound may be from an index or an extent, so that no integer of 32 bits wraps. Calls with extents
/// within this of 2^31 are refused.
inline constexpr std::int64_t most_beyond_indices = 1 << 20;

/// The most buffers that a step reads, and the most indices of its expression. A stencil reads one array at many
/// distances.
inline constexpr int max_operands = 64, max_indices = 16;
static_assert(max_operands >= max_arity);
/// The most results of one pass.
inline constexpr int max_results = 6;

/// One step of the program that every device runs. Self-contained, apart from the buffers that it names. Which fields
/// have a meaning depends on the kind; the views below name them.
struct step {
  step_kind kind = step_kind::map;
  std::uint16_t out = 0;
  static_vector<std::uint16_t, max_operands> in{};

  // map and fold: the fused expression, see fused_ops_of. gemm: see is_scaled
  std::uint32_t first_op = 0;
  std::uint16_t ops = 0;
  /// The iteration space, dims and layout: the dims of `out`, and after them those that a fold reduces.
  tensor_type loop{};
  layout space{};
  std::uint8_t folded = 0;
  reduction combine = reduction::sum;
  /// map, the first of a pass: its boxes, in the program's table (index_bound). None: it has one expression.
  std::uint32_t first_bound = 0;
  std::uint16_t bounds = 0;
  /// fold: a sum along lines each of which has one term that is not 0, at a label: the operation that compares it,
  /// counted from 1. 0: another fold.
  std::uint16_t one_term = 0;

  // gemm: see as_gemm. scan, sort, gather, scatter: k is the dim, see dim_along
  tensor_type batch{}, m{}, n{}, k{};

  /// Of an operation that has a step of its own: its op. (`code` is the op that the user wrote, whose derivative this
  /// may be.)
  op what = op::input;
  // scan: from the last index; and without the element itself. sort: in descending order. gather, scatter: `exclusive`
  // says that indices are in the table, or are labels of none
  bool backwards = false, exclusive = false;

  /// gather: the next step is a product that alone reads the rows, and may read them in the table.
  bool feeds_product = false;

  // call
  const user_entry* user = nullptr;

  // exchange: the maps, in the program's table
  std::uint16_t first_map = 0;
  std::uint8_t maps = 0;

  /// exchange: elements of the result without a source keep their value.
  bool keeps = false;

  /// The collective; none if no device needs anything of another one.
  cleave::kind move = cleave::kind::none;
  /// The axes whose devices take part together.
  axis_set axes{};
  /// exchange, and a move between devices: it overlaps with later steps, until a `wait`.
  bool in_flight = false;
  /// exchange: it begins together with the exchange in the step before it, and shares its messages. map: it runs in one
  /// pass with the step before it. Such maps have the same operands, none of which is a result of theirs, and one list
  /// of fused operations: the expression of each is a beginning of it.
  bool joined = false;
  /// The number of chunks per block if a product is pipelined with the all-gather before it or the reduce-scatter after
  /// it: it computes a chunk while others are in flight. 0: not pipelined.
  std::uint8_t pieces = 0;
  /// A product, and the moves that gather operands of it: the number of panels per block if the product gathers them
  /// itself, so that their results have no memory. 0: they are gathered before it.
  std::uint16_t panels = 0;
  /// wait: the step in which the exchange or move began.
  std::uint16_t begun = 0;

  /// The innermost loop that it is in; for the marks of a loop, that loop.
  std::uint8_t in_loop = 0;

  /// The operation that the user wrote, and whether this is part of its derivative.
  op code = op::input;
  bool gradient = false;
  node_id node = 0;
  source where{};
};

constexpr bool writes(const step& s) { return detail::step_kinds[static_cast<std::size_t>(s.kind)].writes; }
constexpr bool computes(const step& s) { return entry_of(s.kind).computes; }
constexpr bool is_routed(const step& s) { return entry_of(s.kind).routed; }
constexpr bool is_collective(const step& s) { return words_of(s.move).communicates; }
/// Whether it is the first, or the only one, of the exchanges that share messages; true of other collectives.
constexpr bool begins_collective(const step& s) { return is_collective(s) && !s.joined; }

/// Whether two adjacent steps are pipelined (step::pieces).
constexpr bool go_together(const step& s, const step& next) {
  if (s.pieces == 0 || s.pieces != next.pieces) return false;
  if (s.kind == step_kind::move)
    return s.move == kind::all_gather && next.kind == step_kind::gemm && (next.in[0] == s.out) != (next.in[1] == s.out);
  return s.kind == step_kind::gemm && next.kind == step_kind::move && next.move == kind::reduce_scatter &&
         next.combine == reduction::sum && next.in[0] == s.out;
}

// Views of a step: the fields that its kind has, under their names.

/// gemm: the dims of each group, each in the order in which both tensors that have it store it.
struct gemm_dims {
  const tensor_type &batch, &m, &n, &k;
};
constexpr gemm_dims as_gemm(const step& s) { return {s.batch, s.m, s.n, s.k}; }
/// gemm: whether the product is scaled, or something is added to it. Its expression is linear in the product, which
/// op::input with arg 0 stands for, and in the one array that it reads. Others of in[2] and on are numbers.
constexpr bool is_scaled(const step& s) { return s.kind == step_kind::gemm && s.ops > 0; }
/// scan, sort, gather, scatter: the dim along which they work; no_dim for other steps.
constexpr dim_id dim_along(const step& s) { return s.k.rank == 0 ? no_dim : s.k[0]; }

}} // namespace cleave::v0
