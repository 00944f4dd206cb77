// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/storage/wide.hpp>

#include <type_traits>

// An expression with a square root, cut in two there, so that the roots of a whole block are taken at once: what the
// root is taken of, and the rest, which loads the roots.

namespace cleave::inline v0 {

namespace detail {

/// The class of a load from the roots of a block (see fused_node): its address is that of the first root, its "stride"
/// the position of that element in the line.
inline constexpr int load_of_block = 3;

template <class Node>
inline constexpr bool is_block_root = false;
template <class T, int A, int B, int C>
inline constexpr bool is_block_root<fused_node<static_cast<int>(op::sqrt), T, A, B, C>> =
    has_block_roots && (std::is_same_v<T, float> || std::is_same_v<T, double>);
template <class T, int A, int B, int C>
inline constexpr bool is_block_root<fused_node<static_cast<int>(op::rsqrt), T, A, B, C>> =
    is_block_root<fused_node<static_cast<int>(op::sqrt), T, A, B, C>>;

/// The first entries of an expression as an expression.
template <int Left, class Taken, class... Nodes>
struct first_entries {
  using type = Taken;
};
template <int Left, int Loads, class... Taken, class Next, class... Nodes>
  requires(Left > 0)
struct first_entries<Left, fused_expression<Loads, Taken...>, Next, Nodes...>
    : first_entries<Left - 1, fused_expression<Loads, Taken..., Next>, Nodes...> {};

/// The cut at the first root: `Before` are the entries before the next one of the expression.
template <int Loads, class Before, class... Nodes>
struct cut_at_root {
  static constexpr bool found = false;
};
template <int Loads, class... Before, class Next, class... Nodes>
struct cut_at_root<Loads, fused_expression<Loads, Before...>, Next, Nodes...>
    : cut_at_root<Loads, fused_expression<Loads, Before..., Next>, Nodes...> {};
template <int Loads, class... Before, class Next, class... Nodes>
  requires is_block_root<Next>
struct cut_at_root<Loads, fused_expression<Loads, Before...>, Next, Nodes...> {
  static constexpr bool found = true;
  static constexpr bool inverse = Next::code == op::rsqrt;
  using type = typename Next::type;
  using argument = typename first_entries<Next::a + 1, fused_expression<Loads>, Before...>::type;
  using rest = fused_expression<Loads + 1, Before..., fused_node<load_code, type, Loads, load_of_block>, Nodes...>;
};
template <class Expression>
struct root_cut;
template <int Loads, class... Nodes>
struct root_cut<fused_expression<Loads, Nodes...>> : cut_at_root<Loads, fused_expression<Loads>, Nodes...> {};

/// The same operands for another expression that has the first of them.
template <class To, class From>
To same_operands(const From& r, int loads, int indices, int literals) {
  To made{};
  for (int k = 0; k < loads; ++k) {
    made.at[k] = r.at[k];
    made.step[k] = r.step[k];
  }
  for (int k = 0; k < indices; ++k) made.index[k] = r.index[k];
  for (int k = 0; k < literals; ++k) made.literal[k] = r.literal[k];
  return made;
}

} // namespace detail

} // namespace cleave::inline v0
