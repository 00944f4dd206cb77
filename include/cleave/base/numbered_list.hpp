// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <utility>

namespace cleave::inline v0::detail {

template <std::size_t I, class T>
struct numbered {
  T it;
};
template <class Numbers, class... T>
struct numbered_list;
template <std::size_t... I, class... T>
struct numbered_list<std::index_sequence<I...>, T...> : numbered<I, T>... {};

/// Items of several types: `list_of<int, float>{{1}, {2.0f}}`. A std::tuple costs the compiler some forty functions for
/// each list of types, this none.
template <class... T>
using list_of = numbered_list<std::index_sequence_for<T...>, T...>;

template <std::size_t I, class T>
constexpr const T& item_at(const numbered<I, T>& n) {
  return n.it;
}

} // namespace cleave::inline v0::detail
