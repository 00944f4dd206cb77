// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/field_names.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/expr/function.hpp>

namespace cleave { inline namespace v0 {

namespace detail {

/// The leaves of an aggregate, in order.
template <class A>
constexpr indexed_vector<value> leaf_values(A a) {
  indexed_vector<value> all;
  for_each_leaf<is_value>(a, [&](value& v) { all.push_back(v); });
  return all;
}
/// Gives the leaves other values, in order.
template <class A>
constexpr void set_leaves(A& a, indexed_span<const value> values) {
  std::size_t next = 0;
  for_each_leaf<is_value>(a, [&]<class Leaf>(Leaf& leaf) { leaf = Leaf(values[next++]); });
}
template <class A>
constexpr recorder* recorder_of(A& a) {
  recorder* in = nullptr;
  for_each_leaf<is_value>(a, [&](value& v) { in = in == nullptr ? v.in : in; });
  return in;
}

template <class>
struct leaf {
  using type = value;
};
/// The leaf of any aggregate. nvcc replaces an alias that does not depend on its parameter, and expands no pack of it.
template <class A>
using leaf_of = typename leaf<A>::type;
/// Whether a function makes a value of one leaf of each aggregate.
template <class F, class... Others>
concept maps_leaves = requires(F& f, const value& own, Others&... others) { value(f(own, others...)); };
template <class A>
inline constexpr bool is_tree = is_tuple<A> || (std::is_aggregate_v<A> && !std::is_empty_v<A>);
/// After an error in the body of a function, which the compiler has reported, no further one.
template <class F, class... A>
inline constexpr fault fault_in_tree = fit_of<F, A...> == call_fit::reported ? fault::none : fault::number_in_tree;
template <class F, class... A>
  requires is_tree<std::remove_cvref_t<F>>
inline constexpr fault fault_in_tree<F, A...> = fault::number_in_tree;
/// In place of the result of tree_map: the first aggregate among the arguments.
template <class A, class... Rest>
constexpr auto first_tree(const A& a, const Rest&... rest) {
  if constexpr (is_tree<A>) return a;
  else if constexpr (sizeof...(Rest) > 0) return first_tree(rest...);
  else return absorbed_statement{};
}

} // namespace detail

/// Inside a function: an aggregate like the first one, in which each leaf is
/// `f(leaves at the same position in all given aggregates)` (jax.tree.map). The aggregates have the same number of
/// leaves. Fault: result_count.
template <class F, class First, class... Rest>
constexpr First tree_map(F&& f, const First& first, const Rest&... rest) {
  First made = first;
  const indexed_vector<value> own = detail::leaf_values(made);
  // No array: of several vectors in one, nvcc's constant evaluation destroys the first only.
  indexed_vector<indexed_vector<value>> others;
  (others.push_back(detail::leaf_values(rest)), ...);
  for (const indexed_vector<value>& other : others)
    if (other.size() != own.size()) {
      const value bad = detail::recorder_of(made)->fail(fault::result_count, "tree_map", {}, {}, {}, std::ssize(own),
                                                        std::ssize(other));
      detail::set_leaves(made, indexed_vector<value>(own.size(), bad));
      return made;
    }
  std::size_t next = 0;
  for_each_leaf<detail::is_value>(made, [&]<class Leaf>(Leaf& leaf) {
    leaf = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Leaf(f(std::as_const<value>(leaf), others[I][next]...));
    }(std::index_sequence_for<Rest...>{});
    ++next;
  });
  return made;
}
/// A mistake: a number is no aggregate, or the function makes no value of the leaves. Fault: number_in_tree.
template <class F, class First, class... Rest>
  requires(Number<First> || ((Number<Rest> || (Recorded<Rest> && !Recorded<First>)) || ...) ||
           !detail::maps_leaves<F, detail::leaf_of<Rest>...>)
constexpr auto tree_map(F&& f, const First& first, const Rest&... rest) {
  constexpr fault found = detail::fault_in_tree<F, const value&, detail::leaf_of<Rest>&...>;
  return say(rejection<found, F, First, Rest...>), detail::first_tree(f, first, rest...);
}

/// Inside a function: the aggregate whose leaves are `f(name, leaf)`. A leaf has the name of its members:
/// `layers.attention.query`, `weights[2]`. Rules on these names make groups of parameters.
template <class F, class Tree>
constexpr auto tree_map_by_name(F&& f, const Tree& tree) {
  indexed_vector<detail::growing_name> names;
  for_each_named_leaf<detail::is_value, Tree>("", [&]<class>(std::string_view name) {
    names.push_back(detail::growing_name(name));
  });
  std::size_t next = 0;
  return tree_map([&](const auto& x) -> decltype(f(names[0].view(), x)) { return f(names[next++].view(), x); }, tree);
}

}} // namespace cleave::v0
