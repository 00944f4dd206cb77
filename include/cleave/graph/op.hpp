// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace cleave {

/// The operations of a graph. What each one means is in ops/table.hpp, one entry an op.
enum class op : std::uint8_t {
  // sources
  input,
  constant,
  /// Rank 0: the product of the global extents of some dims, known when the program runs.
  count,
  iota,
  // elementwise, one operand
  neg,
  abs,
  sign,
  exp,
  log,
  tanh,
  sqrt,
  rsqrt,
  erf,
  gelu,
  relu,
  sigmoid,
  sin,
  cos,
  floor,
  /// The conjugate of a complex number and its parts; of a real one itself, itself and 0.
  conj,
  real,
  imag,
  logical_not,
  cast,
  /// The same values along more dims.
  broadcast,
  // elementwise, two operands
  add,
  sub,
  mul,
  div,
  pow,
  maximum,
  minimum,
  /// A complex number from its parts.
  complex,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  // elementwise, three operands
  select,
  /// Random numbers of a key, a row and a column, all u64: see ops/philox.hpp. random: 32 bits where the result is u32,
  /// uniform in [0, 1) where it is a floating-point type; normal: with mean 0 and variance 1.
  random,
  normal,
  /// A user's, of any arity: see ops/user.hpp.
  user,
  // contraction and reduction
  dot,
  reduce,
  /// A user's kernel on shards.
  call,
  // each element from another index: ops/remap.hpp
  slice,
  pad,
  shift,
  roll,
  flip,
  repeat,
  tile,
  diagonal,
  concat,
  /// A merge whose blocks do not nest: made of those by the planner, where moving elements is cheaper than gathering
  /// dims.
  merge_blocks,
  /// What each index sees around it, along a dim more; and its adjoint, which adds up what overlaps.
  windows,
  overlap,
  dynamic_slice,
  /// An update as it lies in what it updates, with 0 around it.
  place,
  /// Rows of a table at places that an operand names.
  gather,
  /// The reverse: rows added up in a table of zeros.
  scatter,
  /// Running sums, products, maxima and minima along a dim.
  cumulative,
  /// The elements of each slice along a dim in order; and where they were.
  sort,
  argsort,
  // where loops begin and end
  /// A value that goes from one trip to the next: as it is before the first, and then what op::next says.
  carry,
  /// What is stacked along the dim of the loop, at the index of the trip.
  each,
  next,
  /// A carried value after the last trip.
  last,
  /// A value of every trip, stacked along the dim of the loop.
  collect,
  /// How often a loop runs that runs along no dim: a number, or once if a predicate holds.
  trips,
  /// A predicate after which there is no other trip.
  until,
  // the same elements under other dims
  rename,
  split,
  merge,
  // annotations: layouts
  constrain,
  reshard,
  // annotations: derivatives
  identity,
  stop_gradient,
  /// Computed again beyond it, never shared with what is before it.
  barrier,
};

/// Names for a value that already exists: removed before planning.
constexpr bool is_alias(op code) { return code == op::identity || code == op::stop_gradient; }

} // namespace cleave
