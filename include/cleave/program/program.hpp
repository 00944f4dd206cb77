// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/step.hpp>

namespace cleave { inline namespace v0 {

enum class role : std::uint8_t { input, output, workspace };

/// The form of a buffer on a device.
enum class form : std::uint8_t {
  /// Its shard.
  shard,
  /// A shard and the elements around it.
  region,
  /// The elements around a shard alone: those parts of a region that the shard does not have.
  halo,
  /// The elements of a region, or of a shard and its halo, under the dims of an operation that reads neighbours.
  view,
  /// The slice of a stack at the index of an iteration: one contiguous shard.
  slice,
};

/// A buffer of a plan: on each device an array of its shard's extents in LayoutRight order, or one of the other forms.
struct buffer {
  cleave::role role = role::workspace;
  /// Which argument or result, or which slot of the workspace. Buffers that never live together may share a slot.
  std::uint16_t index = 0;
  tensor_type type{};
  layout where{};
  cleave::form form = cleave::form::shard;
  /// view: the region or the halo. halo: the shard. slice: the stack, whose first dim is indexed by the iteration of
  /// `loop`.
  std::uint16_t of = 0;
  std::uint8_t loop = 0;
  /// region and halo: for each dim `from` the range that follows from the block of dim `to`, see region_range. view:
  /// from its dims to indices in the region; of a halo, to indices of the shard and around it.
  std::uint16_t first_map = 0;
  std::uint8_t maps = 0;
  /// region and halo: which parts it has (region_shape).
  std::uint32_t parts = 0;
};

/// Whether two buffers have the same memory.
constexpr bool same_memory(const buffer& a, const buffer& b) { return a.role == b.role && a.index == b.index; }
/// Whether a buffer has the elements around a shard.
constexpr bool has_neighbours(const buffer& b) { return b.form == form::region || b.form == form::halo; }

/// The facts of a program other than its lists of buffers, steps and maps.
struct program_facts {
  mesh_value mesh{};
  dim_table dims{};
  extent_rules rules{};
  loop_list loops{};
  std::uint16_t arguments = 0;
  std::uint16_t results = 0;
  std::uint16_t slots = 0;
  verdict found{};
};

/// A partitioned program as data of run-time length, which the passes make and change. `plan_of` keeps it as a
/// constant. Readers take either as a program_view.
struct program : program_facts {
  /// The arguments in order, the results in order, then the workspace and other names for the same memory.
  indexed_vector<buffer> buffers{};
  indexed_vector<step> steps{};
  indexed_vector<dim_map> maps{};
  /// The expressions of maps and folds, one after the other.
  indexed_vector<fused_op> fused_ops{};
  /// The boxes of maps, one after the other.
  indexed_vector<index_bound> bounds{};
};

}} // namespace cleave::v0
