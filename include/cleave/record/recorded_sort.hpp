// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/record/numbered_names.hpp>
#include <cleave/record/recorder.hpp>

namespace cleave::detail {

/// The dim of the ranks of what is sorted along a dim: "rank 007".
inline constexpr auto rank_names = numbered_names("rank ");
constexpr dim_ref ranks_along(dim_id d, std::int64_t extent) { return {rank_names[d].text(), extent}; }

/// The elements of each slice along a dim in order (op::sort), or the indices that they had (op::argsort).
constexpr value recorded_sort(recorder& in, op code, value x, dim_ref along, bool descending, source where) {
  if (!x.ok()) return x;
  node n = in.node_on(code, x, where);
  n.backwards = descending;
  const int d = in.dim_of(x, along, name_of(code), where);
  if (d < 0) return {&in, no_node};
  if (is_complex(n.type.element)) return in.fail(fault::not_for_complex, name_of(code), where);
  n.which[0] = static_cast<dim_id>(d);
  if (code == op::argsort) n.type.element = element::i32;
  return in.append(n, std::array{x}, where);
}

} // namespace cleave::detail
