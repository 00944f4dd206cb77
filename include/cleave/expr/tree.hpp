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
/// A mistake: a number in place of an aggregate. Fault: number_in_tree.
template <class F, class First, class... Rest>
  requires(Number<First> || (Number<Rest> || ...))
constexpr auto tree_map(F&&, const First& first, const Rest&...) {
  return say(rejection<fault::number_in_tree, First, Rest...>), first;
}

/// Inside a function: the aggregate whose leaves are `f(name, leaf)`. A leaf has the name of its members:
/// `layers.attention.query`, `weights[2]`. Rules on these names make groups of parameters.
template <class F, class Tree>
constexpr Tree tree_map_by_name(F&& f, const Tree& tree) {
  indexed_vector<detail::growing_name> names;
  for_each_named_leaf<detail::is_value, Tree>("", [&]<class>(std::string_view name) {
    names.push_back(detail::growing_name(name));
  });
  std::size_t next = 0;
  return tree_map([&](const value& leaf) { return f(names[next++].view(), leaf); }, tree);
}

}} // namespace cleave::v0
