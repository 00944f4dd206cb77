// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/field_names.hpp>
#include <cleave/expr/tree.hpp>

#include <string_view>

namespace cleave { inline namespace v0 {

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
