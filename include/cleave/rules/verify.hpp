// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/graph/verify.hpp>
#include <cleave/rules/all.hpp>

namespace cleave::inline v0 {

/// Whether a node is what its operation says: as many operands as the operation takes, and the offset of a map that
/// only the run knows, maps that name dims of both sides and windows of the side that has them, and factors that name
/// each position of the result at most once and each of an operand at most once.
constexpr bool verify_op(const graph& g, const node& n) {
  const op_entry& entry = entry_of(n.code);
  if (as_size(n.first_map) + n.maps > g.maps.size()) return false;
  int offsets = 0;
  for (const dim_map& m : maps_of(g, n)) {
    if (m.operand >= n.arity || m.at_run_time >= n.arity) return false;
    if (m.at_run_time >= entry.arity) offsets = 1;
    const tensor_type& from = rules::operand_type(g, n, m.operand);
    if (!n.type.has(m.to) || !from.has(m.from)) return false;
    if (m.window != no_dim && from.has(m.window) != (n.code == op::fold_windows)) return false;
  }
  if (entry.arity != 0 && n.arity != entry.arity + offsets) return false;
  unsigned seen[max_arity + 1]{};
  const factor_list factors = factors_of(g, n);
  for (const factor& f : factors)
    for (int k = 0; k <= max_arity; ++k) {
      if (f.at[k] < 0) continue;
      if (k != in_result && k >= n.arity) return false;
      const tensor_type& type = k == in_result ? n.type : rules::operand_type(g, n, k);
      if (f.at[k] >= type.rank || (seen[k] >> f.at[k] & 1u) != 0) return false;
      // Several maps may follow one dim of an operand.
      if (!f.is_fetched()) seen[k] |= 1u << f.at[k];
    }
  return true;
}
constexpr bool verify_ops(const graph& g) {
  for (const node& n : g.nodes)
    if (!verify_op(g, n)) return false;
  return true;
}

} // namespace cleave::inline v0
