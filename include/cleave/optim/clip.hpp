// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/optim/leaves.hpp>

namespace cleave::optim {

/// The square root of the sum of the squares of all elements of all leaves (optax.global_norm): a rank-0 value, float, or double where a
/// leaf is; numbers of 16 bits are squared and added up in float. Any layouts; each device adds up what it has of all leaves, and one number
/// is reduced for each set of axes that divides leaves: nothing is gathered. Fault: not_floating. An aggregate has at least one leaf.
template <class Gradients>
constexpr value global_norm(const Gradients& gradients, source where = source::here()) {
  const called_at user(operand(detail::leaf_values(gradients).front(), where.file, where.line));
  return detail::as_number(sqrt(detail::total_of(gradients, "global_norm", where, [](const value& g) { return g * g; })));
}

/// The gradients times limit / norm where their `global_norm` is above the limit, else as they are (Pascanu, Mikolov and Bengio 2013;
/// optax.clip_by_global_norm). Types and layouts are kept. `limit` is a number or a rank-0 value. Gradients of zero norm stay zeros;
/// where one element is NaN all become NaN. Communication and faults are those of `global_norm`, which is computed once if asked for too.
template <class Gradients, class Limit>
constexpr Gradients clip_by_global_norm(const Gradients& gradients, const Limit& limit, source where = source::here()) {
  const value norm = global_norm(gradients, where);
  const called_at user(operand(norm, where.file, where.line));
  const auto most = detail::in_type_of(limit, norm);
  // The quotient of a zero norm is not looked at.
  const value scale = detail::as_number(select(norm <= most, 1, most / norm));
  return tree_map([&](const value& g) { return detail::in_type(detail::widened(g) * scale, detail::element_in(g)); }, gradients);
}

} // namespace cleave::optim
