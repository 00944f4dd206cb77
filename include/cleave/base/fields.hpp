// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/bind_fields.hpp>
#include <cleave/base/rejected.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cleave::inline v0 {

namespace detail {

/// Converts to any field type; counting how many of them initialise an aggregate counts its fields. (Boost.PFR, A.
/// Polukhin.)
struct any_field {
  template <class T>
  constexpr operator T&() const&;
  template <class T>
  constexpr operator T&&() const&&;
};

template <class A, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { A{(static_cast<void>(I), any_field{})...}; };
}
template <class A, std::size_t N>
constexpr std::size_t count_fields() {
  if constexpr (N > 64) return 65;
  else if constexpr (takes<A>(std::make_index_sequence<N>{}) && !takes<A>(std::make_index_sequence<N + 1>{})) return N;
  else return count_fields<A, N + 1>();
}

template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

} // namespace detail

/// The number of fields of an aggregate, 0 to 64.
template <class A>
inline constexpr std::size_t field_count = detail::count_fields<A, 0>();

namespace detail {

/// Calls a function with the items of a tuple or a pair. std::apply costs g++ several times as much.
template <class F, class Items, std::size_t... I>
constexpr decltype(auto) call_with_items(const F& f, Items& items, std::index_sequence<I...>) {
  return f(std::get<I>(items)...);
}
template <class F, class Items>
constexpr decltype(auto) call_with_items(const F& f, Items& items) {
  return call_with_items(f, items, std::make_index_sequence<std::tuple_size_v<std::remove_const_t<Items>>>{});
}
/// The same with the fields of an aggregate.
template <class F, class A>
constexpr decltype(auto) call_with_fields(const F& f, A& a) {
  constexpr std::size_t n = field_count<std::remove_cvref_t<A>>;
  if constexpr (n > 64) return say(rejection<fault::too_many_fields, std::remove_cvref_t<A>>), f();
  else return bind_fields<n>(a, f);
}

} // namespace detail

template <template <class> class Leaf, class A, class F>
constexpr void for_each_leaf(A& a, F&& f);

namespace detail {
/// Calls for_each_leaf with each of several values.
template <template <class> class Leaf, class F>
struct leaf_walk {
  F& f;

  template <class... Items>
  constexpr void operator()(Items&... items) const {
    (for_each_leaf<Leaf>(items, f), ...);
  }
};
} // namespace detail

/// Calls `f` with every leaf of nested aggregates, std::array, std::tuple and std::pair, in declaration order.
/// It does not look into a type for which `Leaf<T>` is true.
template <template <class> class Leaf, class A, class F>
constexpr void for_each_leaf(A& a, F&& f) {
  using T = std::remove_cvref_t<A>;
  if constexpr (Leaf<T>::value) {
    f(a);
  } else if constexpr (detail::is_std_array<T>) {
    for (auto& item : a) for_each_leaf<Leaf>(item, f);
  } else if constexpr (detail::is_tuple<T>) {
    detail::call_with_items(detail::leaf_walk<Leaf, std::remove_reference_t<F>>{f}, a);
  } else if constexpr (!std::is_aggregate_v<T> || std::is_array_v<T>) {
    say(rejection<fault::not_an_argument, T>);
  } else {
    detail::call_with_fields(detail::leaf_walk<Leaf, std::remove_reference_t<F>>{f}, a);
  }
}

} // namespace cleave::inline v0
