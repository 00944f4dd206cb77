// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/optim/leaves.hpp>

namespace cleave { inline namespace v0 { namespace optim {

/// The square root of the sum of the squares of all elements of all leaves (optax.global_norm): a rank-0 value in
/// float, or in double if a leaf is double. 16-bit numbers are squared and added in float. Any layouts. Communication:
/// each device adds its own elements of all leaves, and one number is reduced for each set of axes that shards leaves.
/// Nothing is gathered. The gradient of a norm of zero is 0. An aggregate has at least one leaf. Fault: not_floating.
template <class Gradients>
  requires(!Number<Gradients>)
constexpr value global_norm(const Gradients& gradients, source where = source::here()) {
  const called_at user(operand(values_of(gradients).front(), where.file, where.line));
  return detail::as_number(
      root_of_squares(detail::total_of(gradients, "global_norm", where, [](const value& g) { return g * g; })));
}

/// The gradients, times limit / norm if their `global_norm` exceeds the limit (Pascanu, Mikolov and Bengio 2013;
/// optax.clip_by_global_norm). Types and layouts are kept. `limit` is a number or a rank-0 value. Zero gradients stay
/// zero; if one element is NaN, all become NaN. Communication and faults as for `global_norm`, which is computed once
/// if you ask for it too.
template <class Gradients, class Limit>
  requires(!Number<Gradients>)
constexpr Gradients clip_by_global_norm(const Gradients& gradients, const Limit& limit, source where = source::here()) {
  const value norm = global_norm(gradients, where);
  const called_at user(operand(norm, where.file, where.line));
  const auto most = detail::in_type_of(limit, norm);
  // Nothing is divided by a norm of zero: the gradient of the unused quotient would be NaN.
  const value fits = norm <= most, scale = detail::as_number(select(fits, 1, most / select(fits, 1, norm)));
  return tree_map([&](const value& g) { return in_type(widened(g) * scale, element_in(g)); }, gradients);
}

}}} // namespace cleave::v0::optim
