// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/record/recorder.hpp>

// How kernels of the user are recorded.

namespace cleave::detail {

/// A user's kernel on shards. Dims in `whole` are not divided; the others are, alike, wherever they appear.
constexpr value recorded_call(recorder& in, const user_entry& user, std::span<const value> args, std::span<const dim_ref> whole, const tensor_type& result, source where) {
  node n;
  n.code = op::call;
  n.user = &user;
  n.type = result;
  if (!in.take_operands(n, args, where)) return {&in, no_node};
  for (const dim_ref& d : whole) {
    const int id = in.made().find_dim(d.name);
    if (id < 0) return in.fail(fault::dim_missing, user.name, where, d.name);
    n.over |= dim_bit(static_cast<dim_id>(id));
  }
  // What an operand has and the result has not is not divided either: nobody would know how to join the parts.
  return in.push(n);
}
/// The same in manual mode: operands come in the layouts to which they were resharded, whole where they were not, and the
/// result has the given layout.
constexpr value recorded_local_call(recorder& in, const user_entry& user, std::span<const value> args, element type, const spec& s, source where) {
  node n;
  n.code = op::call;
  n.user = &user;
  n.local = true;
  n.type.element = type;
  if (!in.take_operands(n, args, where)) return {&in, no_node};
  for (const placement& p : s.dims) {
    const int d = in.dim(p.dim, user.name, where);
    if (d < 0) return {&in, no_node};
    if (n.type.has(static_cast<dim_id>(d))) return in.fail(fault::dim_used_twice, user.name, where, p.dim.name);
    n.type.append(static_cast<dim_id>(d));
  }
  if (!in.resolve(s, n.type, user.name, where, n.pin, n.pinned)) return {&in, no_node};
  return in.push(n);
}
/// The type of a value with dims by name.
constexpr tensor_type type_named(recorder& in, element type, std::span<const dim_ref> dims, source where) {
  tensor_type t;
  t.element = type;
  for (const dim_ref& d : dims)
    if (const int id = in.dim(d, "call", where); id >= 0) t.append(static_cast<dim_id>(id));
  return t;
}

} // namespace cleave::detail
