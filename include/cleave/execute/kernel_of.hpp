// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/strides.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/storage/element_type.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

// From a step, a constant, to the types of its kernels.

namespace cleave {

namespace detail {

/// Steps are read through short arrays: looking into a whole plan for each step is slow in some compilers.
inline constexpr std::size_t steps_in_chunk = 16;

template <class Plan, std::size_t Chunk>
struct step_chunk {
  static constexpr std::array<step, steps_in_chunk> value = [] {
    std::array<step, steps_in_chunk> some{};
    for (std::size_t i = 0; i < steps_in_chunk && Chunk * steps_in_chunk + i < Plan::steps.size(); ++i)
      some[i] = Plan::steps[Chunk * steps_in_chunk + i];
    return some;
  }();
};

template <class Plan, std::size_t I>
struct step_at {
  static constexpr step value = step_chunk<Plan, I / steps_in_chunk>::value[I % steps_in_chunk];
  static constexpr inner_dim inner = inner_dim_of(value, Plan::buffers, Plan::maps);
};

/// The numbers of a tape entry's node: which operand, literal or index it is.
struct node_numbers {
  int a = 0, b = 0, c = 0;
};
constexpr node_numbers numbers_of(const step& s, const inner_dim& inner, std::size_t j) {
  const tape_op& t = s.tape[j];
  int literals = 0, indices = 0;
  for (std::size_t i = 0; i < j; ++i) {
    if (s.tape[i].code == op::constant || s.tape[i].code == op::count) ++literals;
    if (s.tape[i].code == op::iota) ++indices;
  }
  switch (t.code) {
    case op::input: return {t.arg, inner.stride[t.arg], 0};
    case op::constant:
    case op::count: return {literals, 0, 0};
    case op::iota: return {indices, t.arg == inner.position ? 1 : 0, 0};
    default: return {t.in[0], t.in[1], t.in[2]};
  }
}

/// The function of a user's operation for an element type.
template <class T>
constexpr auto function_of(const user_entry& e) {
  if constexpr (std::is_same_v<T, double>) return e.f64;
  else if constexpr (std::is_same_v<T, float>) return e.f32;
  else if constexpr (std::is_same_v<T, std::int64_t>) return e.i64;
  else return e.i32;
}

template <class Step, std::size_t J>
struct node_of {
  static constexpr tape_op entry = Step::value.tape[J];
  static constexpr node_numbers numbers = numbers_of(Step::value, Step::inner, J);
  using value_type = typename element_type<entry.type>::type;
  static constexpr auto find() {
    if constexpr (entry.code == op::user)
      return std::type_identity<user_node<function_of<computed<value_type>>(*entry.user), value_type, numbers.a, numbers.b, numbers.c>>{};
    else return std::type_identity<tape_node<static_cast<int>(entry.code), value_type, numbers.a, numbers.b, numbers.c>>{};
  }
  using type = typename decltype(find())::type;
};

template <class Step, class Entries>
struct expression_of;
template <class Step, std::size_t... J>
struct expression_of<Step, std::index_sequence<J...>> {
  using type = tape_expression<static_cast<int>(Step::value.in.size()), typename node_of<Step, J>::type...>;
};

} // namespace detail

} // namespace cleave
