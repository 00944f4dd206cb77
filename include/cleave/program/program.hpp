// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>

namespace cleave {

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
