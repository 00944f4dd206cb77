// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/collective.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave::inline v0 {

/// One operation with the layouts of its operands and of its result: of a node under a strategy, or of a step of a
/// program. Both are priced from this, so that they cost the same.
struct placed_op {
  struct tensor {
    const tensor_type* type = nullptr;
    layout where{};
  };
  tensor in[max_arity]{};
  int arity = 0;
  tensor out{};
  indexed_span<const dim_map> maps{};
  /// The dim along which it sorts, adds up or looks up.
  dim_id along = no_dim;
  /// The axes over which its step communicates.
  axis_set over = 0;
  /// Which operation of its class it is.
  op code = op::input;
  const user_entry* user = nullptr;

  /// The axes that shard the result along its dim.
  constexpr axis_list axes_along() const { return out.where[out.type->find(along)]; }
};

/// The most elements that a device has of a tensor.
constexpr std::int64_t elements_of_busiest(const placed_op::tensor& t, const sizes& s) {
  return largest_shape(shape_of(*t.type, s), t.where, s.axes).elements();
}

} // namespace cleave::inline v0
