// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>

namespace cleave {

/// The collectives and local moves of a plan.
enum class kind : std::uint8_t {
  none,
  slice,
  mask,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  collective_permute,
};

constexpr std::string_view name_of(kind k) {
  constexpr std::string_view names[] = {"none",       "slice",      "mask",      "all_reduce", "reduce_scatter",
                                        "all_gather", "all_to_all", "collective_permute"};
  return names[static_cast<int>(k)];
}

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
};

/// One operation of a fused chain. Operands are indices of earlier entries of the tape.
/// op::input loads in[arg]; op::constant is `scalar`; op::count is the product of the global extents of the dims in
/// `over` (evaluated when the plan is bound to sizes); op::iota is the global index along dim `arg`.
struct tape_op {
  op code = op::constant;
  element type = element::none;
  std::array<std::uint8_t, 3> in{};
  std::uint8_t arg = 0;
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

  // gemm: the dims of each group, each in the order in which both tensors that have it store it
  tensor_type batch{}, m{}, n{}, k{};

  // call
  const user_entry* user = nullptr;

  // move
  cleave::kind move = cleave::kind::none;
  /// The axes whose devices take part together.
  axis_set axes = 0;

  /// The operation that the user wrote, and whether this is part of its derivative.
  op code = op::input;
  bool gradient = false;
  node_id node = 0;
  source where{};
};

enum class role : std::uint8_t { input, output, workspace };

/// A buffer of a plan: on each device a LayoutRight array of its shard's extents.
struct buffer {
  cleave::role role = role::workspace;
  /// Which argument or result, or which workspace slot (slots may be shared by buffers that never live together).
  std::uint16_t index = 0;
  tensor_type type{};
  layout where{};
};

/// A partitioned program as data with run-time length; `plan_of` keeps the same as a constant.
struct program {
  mesh_value mesh{};
  static_vector<dim_info, max_dims> dims{};
  static_vector<dim_product, max_products> products{};
  /// The arguments in order, the results in order, then the workspace and other names for the same memory.
  std::vector<buffer> buffers{};
  std::vector<step> steps{};
  std::uint16_t arguments = 0;
  std::uint16_t results = 0;
  std::uint16_t slots = 0;
  verdict found{};
};

} // namespace cleave
