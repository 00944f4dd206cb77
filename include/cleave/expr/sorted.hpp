// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/recorder.hpp>

namespace cleave::detail {

/// The dim of the ranks of what is sorted along a dim: "rank 007". The name of a dim of the graph must outlive it.
struct rank_name {
  char letters[8] = {'r', 'a', 'n', 'k', ' ', '0', '0', '0'};
};
inline constexpr auto rank_names = [] {
  std::array<rank_name, max_dims> names{};
  for (std::size_t d = 0; d < names.size(); ++d)
    for (std::size_t digit = 0, rest = d; digit < 3; ++digit, rest /= 10) names[d].letters[7 - digit] = static_cast<char>('0' + rest % 10);
  return names;
}();
constexpr dim_ref ranks_along(dim_id d, std::int64_t extent) { return {std::string_view(rank_names[d].letters, 8), extent}; }

/// The elements of each slice along a dim in order (op::sort), or the indices that they had (op::argsort).
constexpr value recorded_sort(recorder& in, op code, value x, dim_ref along, bool descending, source where) {
  if (!x.ok()) return x;
  node n;
  n.code = code;
  n.backwards = descending;
  n.type = in.at(x).type;
  const int d = in.made().find_dim(along.name);
  if (d < 0 || !n.type.has(static_cast<dim_id>(d))) return in.fail(fault::dim_missing, name_of(code), where, along.name);
  if (is_complex(n.type.element)) return in.fail(fault::not_for_complex, name_of(code), where);
  n.which[0] = static_cast<dim_id>(d);
  if (code == op::argsort) n.type.element = element::i32;
  return in.append(n, std::array{x}, where);
}

} // namespace cleave::detail
