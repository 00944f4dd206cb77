// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/bind_fields.hpp>
#include <cleave/base/rejected.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

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

/// Converts to the base classes of an aggregate alone.
template <class A>
struct any_base {
  template <class T>
    requires(std::is_base_of_v<T, A> && !std::is_same_v<T, A>)
  constexpr operator T() const;
};
template <class A, std::size_t... Before, std::size_t... After>
constexpr bool has_array_at(std::index_sequence<Before...>, std::index_sequence<After...>) {
  // A list in braces is one field. The items of an array would count one by one without them.
  if constexpr (requires { A{(static_cast<void>(Before), any_field{})..., {any_field{}, any_field{}}}; })
    return !requires {
      A{(static_cast<void>(Before), any_field{})...,
        {any_field{}, any_field{}},
        (static_cast<void>(After), any_field{})...};
    };
  else return false;
}
template <class A, std::size_t Fields, std::size_t... I>
constexpr bool has_array(std::index_sequence<I...>) {
  return (has_array_at<A>(std::make_index_sequence<I>{}, std::make_index_sequence<Fields - 1 - I>{}) || ...);
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

/// Whether an aggregate has no base classes, C arrays and references, so that a structured binding can name its fields
/// and it can be constructed before the fields are known.
template <class A>
inline constexpr bool has_plain_fields = [] {
  [[maybe_unused]] constexpr std::size_t n = field_count<A>;
  if constexpr (!std::is_default_constructible_v<A> || requires { A{any_base<A>{}}; }) return false;
  else if constexpr (n > 64) return true;
  else return !has_array<A, n>(std::make_index_sequence<n>{});
}();

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
/// Whether for_each_leaf finds leaves alone.
template <template <class> class Leaf, class A>
constexpr bool has_leaves_alone();
template <template <class> class Leaf, class... Items>
constexpr bool have_leaves_alone() {
  return (has_leaves_alone<Leaf, std::remove_const_t<Items>>() && ...);
}
template <template <class> class Leaf>
struct leaf_probe {
  template <class... Fields>
  constexpr auto operator()(Fields&...) const {
    return std::bool_constant<have_leaves_alone<Leaf, Fields...>()>{};
  }
};
template <template <class> class Leaf, class A, std::size_t... I>
constexpr bool items_are_leaves(std::index_sequence<I...>) {
  return have_leaves_alone<Leaf, std::tuple_element_t<I, A>...>();
}
template <template <class> class Leaf, class A>
constexpr bool has_leaves_alone() {
  // A tensor that only has a type is empty too.
  if constexpr (Leaf<A>::value || std::is_empty_v<A>) return Leaf<A>::value || !requires { typename A::sharding_type; };
  else if constexpr (is_std_array<A>) return has_leaves_alone<Leaf, typename A::value_type>();
  else if constexpr (is_tuple<A>) return items_are_leaves<Leaf, A>(std::make_index_sequence<std::tuple_size_v<A>>{});
  else if constexpr (!std::is_aggregate_v<A> || std::is_array_v<A>) return false;
  else if constexpr (!has_plain_fields<A>) return false;
  else if constexpr (field_count<A> > 64) return true;
  else return decltype(bind_fields<field_count<A>>(std::declval<A&>(), leaf_probe<Leaf>{}))::value;
}
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
  } else if constexpr (!detail::has_plain_fields<T>) {
    say(rejection<fault::not_an_argument, T>);
  } else {
    detail::call_with_fields(detail::leaf_walk<Leaf, std::remove_reference_t<F>>{f}, a);
  }
}

}} // namespace cleave::v0
