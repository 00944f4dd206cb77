// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/collective.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave {

enum class step_kind : std::uint8_t {
  /// out[loop] = tape(in...): one pass over memory for a chain of elementwise ops.
  map,
  /// out[kept] = reduction over the last `folded` loop dims of tape(in...).
  fold,
  /// out[batch, m, n] = sum over k of in0[batch, m, k] * in1[batch, k, n], any memory order of the groups.
  gemm,
  /// out = a user's kernel on the shards of in...
  call,
  /// out = in0 in another layout; `move` says by which collective.
  move,
  /// out = elements of in... under other indices, as the maps say; 0 where there is none.
  exchange,
  /// out = rows of in0 at the places in1, along dim k.
  gather,
  /// out = a table of zeros to which the rows in0 are added at the places in1, along dim k.
  scatter,
  /// out = running totals of in0 along dim k, in the order of its indices or the reverse.
  scan,
  /// out = in0 sorted along dim k, or the indices that its elements had.
  sort,
  /// An exchange that began in step `begun` is over: what it writes is there, what it reads may be written again.
  wait,
  /// The steps up to the end run again and again: along a dim, or as often as in0 says. They end early where in0 of the end holds.
  loop_begin,
  loop_end,
};

/// One operation of a fused chain. Operands are indices of earlier entries of the tape.
/// op::input loads in[arg]; op::constant is `scalar`; op::count is the product of the global extents of the dims in
/// `over` (evaluated when the plan is bound to sizes); op::iota is the global index along dim `arg`.
struct tape_op {
  op code = op::constant;
  element type = element::none;
  std::array<std::uint8_t, 3> in{};
  std::uint8_t arg = 0;
  /// Of the user's operation, for checked mode; 0 where it is unknown or does not fit.
  std::uint16_t line = 0;
  double scalar = 0;
  dim_set over = 0;
  /// op::user: whose function.
  const user_entry* user = nullptr;
};

inline constexpr int max_tape = 24;
inline constexpr int max_operands = 6;
static_assert(max_operands >= max_arity);

/// One step of the program that every device runs. Self-contained up to the buffers it names.
struct step {
  step_kind kind = step_kind::map;
  std::uint16_t out = 0;
  static_vector<std::uint16_t, max_operands> in{};

  // map and fold
  static_vector<tape_op, max_tape> tape{};
  /// The iteration space: dims and their layout; for a map the dims of `out`, for a fold those and then the folded ones.
  tensor_type loop{};
  layout space{};
  std::uint8_t folded = 0;
  reduction combine = reduction::sum;

  // gemm: the dims of each group, each in the order in which both tensors that have it store it. scan, sort: k is the dim
  tensor_type batch{}, m{}, n{}, k{};

  // scan; sort: in descending order, and whether the indices are wanted
  bool backwards = false, exclusive = false, indices = false;

  // call
  const user_entry* user = nullptr;

  // exchange: the maps, in the program's table. For a region the parts of it that are needed (see region_part).
  std::uint16_t first_map = 0;
  std::uint8_t maps = 0;
  std::uint32_t region_parts = 0;

  // move and exchange; an exchange for which nobody fetches anything is none
  cleave::kind move = cleave::kind::none;
  /// The axes whose devices take part together.
  axis_set axes = 0;
  /// An exchange: is not over before a later step, which waits for it, so that it goes on while what lies between is computed.
  bool in_flight = false;
  /// wait: the step in which the exchange began.
  std::uint16_t begun = 0;

  /// The innermost loop that it is in; of a beginning and an end, their own.
  std::uint8_t in_loop = 0;

  /// The operation that the user wrote, and whether this is part of its derivative.
  op code = op::input;
  bool gradient = false;
  node_id node = 0;
  source where{};
};

enum class role : std::uint8_t { input, output, workspace };

/// What a buffer is on a device: its shard; a region, which is a shard and what is around it; the elements of a region under the dims
/// of an operation that looks around; or what a stack has at the index of a trip, a shard in one piece.
enum class form : std::uint8_t { shard, region, view, slice };

/// A buffer of a plan: on each device a LayoutRight array of its shard's extents, or another form of such.
struct buffer {
  cleave::role role = role::workspace;
  /// Which argument or result, or which workspace slot (slots may be shared by buffers that never live together).
  std::uint16_t index = 0;
  tensor_type type{};
  layout where{};
  /// Of a region: maps with the range of each dim `from` that follows from the block of dim `to`: from stride * first + offset to
  /// stride * last + offset + dilation. Of a view: maps from its dims to places in the region `of`. A slice is one of the buffer `of`, along the
  /// first dim of that, at the index that `loop` is at.
  cleave::form form = cleave::form::shard;
  std::uint16_t of = 0;
  std::uint8_t loop = 0;
  std::uint16_t first_map = 0;
  std::uint8_t maps = 0;
};

constexpr bool writes(const step& s) { return s.kind != step_kind::loop_begin && s.kind != step_kind::loop_end && s.kind != step_kind::wait; }
/// What it moves where depends on data.
constexpr bool is_routed(const step& s) { return s.kind == step_kind::gather || s.kind == step_kind::scatter || s.kind == step_kind::sort; }
constexpr bool is_collective(const step& s) { return s.move != kind::none && s.move != kind::slice && s.move != kind::mask; }

/// A partitioned program as data with run-time length; `plan_of` keeps the same as a constant.
struct program {
  mesh_value mesh{};
  static_vector<dim_info, max_dims> dims{};
  extent_rules rules{};
  /// The arguments in order, the results in order, then the workspace and other names for the same memory.
  std::vector<buffer> buffers{};
  std::vector<step> steps{};
  std::vector<dim_map> maps{};
  loop_list loops{};
  std::uint16_t arguments = 0;
  std::uint16_t results = 0;
  std::uint16_t slots = 0;
  verdict found{};
};

} // namespace cleave
