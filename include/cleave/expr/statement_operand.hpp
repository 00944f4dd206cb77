// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/fields.hpp>
#include <cleave/type/abstract.hpp>

namespace cleave::inline v0 {

template <class F, class... Args>
struct expression;

namespace detail {

template <class A>
using kept = typename kept_as<std::remove_cvref_t<A>>::type;

/// The same tensors without a copy of their elements: a tensor itself, or an aggregate of tensors and numbers.
template <class A>
constexpr A shared_with(const A& a) {
  if constexpr (TensorType<A> && requires { a.alias(); }) {
    return a.alias();
  } else if constexpr (is_std_array<A>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return A{shared_with(a[I])...};
    }(std::make_index_sequence<std::tuple_size_v<A>>{});
  } else if constexpr (is_tuple<A>) {
    return call_with_items([](const auto&... items) { return A(shared_with(items)...); }, a);
  } else if constexpr (std::is_aggregate_v<A> && !std::is_array_v<A> && !std::is_empty_v<A> && !is_number<A>) {
    // What is no argument is reported where the statement is recorded.
    if constexpr (!has_plain_fields<A>) return a;
    else return call_with_fields([](const auto&... fields) { return A{shared_with(fields)...}; }, a);
  } else {
    return a;
  }
}

template <class F, class... Args>
constexpr expression<F, Args...> shared_with(const expression<F, Args...>& e) {
  return e;
}

/// An operand of a statement. Copies of statements share the elements of their tensors, so that building one costs
/// nothing.
template <class A>
struct statement_operand {
  A it;

  constexpr statement_operand(const A& a) : it(shared_with(a)) {}
  constexpr statement_operand(const statement_operand& other) : it(shared_with(other.it)) {}
  constexpr statement_operand(statement_operand&&) = default;
};

} // namespace detail

} // namespace cleave::inline v0
