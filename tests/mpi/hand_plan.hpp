// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/executor.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>

// Plans written by hand, so that the run time is tested without the planner.

namespace hand {

using namespace cleave;

template <std::size_t Buffers, std::size_t Steps, std::size_t Ops = 0>
using program_of = frozen_program<Buffers, Steps, 0, Ops>;

/// The program that `Maker::make()` returns, as a plan.
template <class Maker>
struct hand_plan {
  static constexpr auto frozen = Maker::make();
};

constexpr tensor_type type_of(element e, std::initializer_list<int> dims) {
  tensor_type t;
  t.element = e;
  for (int d : dims) t.append(static_cast<dim_id>(d));
  return t;
}
/// A buffer whose dims with id `sharded` are sharded over axis 0.
constexpr buffer buffer_of(role r, int index, tensor_type t, int sharded = -1) {
  buffer b;
  b.role = r;
  b.index = static_cast<std::uint16_t>(index);
  b.type = t;
  for (int i = 0; i < t.rank; ++i)
    if (t[i] == sharded) b.where.set(i, axis_list(0));
  return b;
}
constexpr layout space_of(const tensor_type& loop, int sharded) {
  layout l;
  for (int i = 0; i < loop.rank; ++i)
    if (loop[i] == sharded) l.set(i, axis_list(0));
  return l;
}
constexpr fused_op load(element e, int operand) {
  fused_op t;
  t.code = op::input;
  t.type = e;
  t.arg = static_cast<std::uint8_t>(operand);
  return t;
}
constexpr fused_op apply(op code, element e, int a, int b = 0, int c = 0) {
  fused_op t;
  t.code = code;
  t.type = e;
  t.in = {static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b), static_cast<std::uint8_t>(c)};
  return t;
}
/// Gives a step its expression, whose entries are written from `first` on.
template <class Program>
constexpr void set_expression(Program& p, step& s, std::initializer_list<fused_op> ops, std::size_t first = 0) {
  s.first_op = static_cast<std::uint32_t>(first);
  for (const fused_op& t : ops) p.fused_ops[first + s.ops++] = t;
}
constexpr fused_op literal(element e, double value) {
  fused_op t;
  t.type = e;
  t.scalar = value;
  return t;
}
constexpr fused_op iota(element e, int position) {
  fused_op t;
  t.code = op::iota;
  t.type = e;
  t.arg = static_cast<std::uint8_t>(position);
  return t;
}
constexpr fused_op count(element e, std::initializer_list<int> dims) {
  fused_op t;
  t.code = op::count;
  t.type = e;
  for (int d : dims) t.over |= dim_bit(static_cast<dim_id>(d));
  return t;
}

} // namespace hand
