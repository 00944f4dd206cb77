// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/program/inner_dim.hpp>
#include <cleave/program/program_view.hpp>
#include <cleave/storage/element_type.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

// From the fused operations of a step, a constant, to the type of its expression. Steps that compute the same share one
// type.

namespace cleave { inline namespace v0 { namespace detail {

/// The parts of a node of an expression: its op, the element type of its result, and where its operands are (see
/// fused_node), 16 bits each.
constexpr std::uint64_t word_of(op code, element type, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return underlying(code) | std::uint64_t{underlying(type)} << 8 | a << 16 | b << 32 | c << 48;
}
constexpr op op_of(std::uint64_t word) { return static_cast<op>(word & 0xff); }
constexpr element type_of(std::uint64_t word) { return static_cast<element>(word >> 8 & 0xff); }
/// Operand 0, 1 or 2 of a word.
constexpr int operand_of(std::uint64_t word, int k) { return as_int(word >> (16 + 16 * k) & 0xffff); }
constexpr std::uint64_t with_operand(std::uint64_t word, int k, int operand) {
  const int at = 16 + 16 * k;
  return (word & ~(std::uint64_t{0xffff} << at)) | static_cast<std::uint64_t>(operand) << at;
}

/// All that the code of a fused expression depends on, one word for each operation, and which of them are results.
struct fused_code {
  std::size_t loads = 0;
  static_vector<std::uint16_t, max_results> root{};
  indexed_vector<std::uint64_t> word{};
  indexed_vector<const user_entry*> user{};

  constexpr int size() const { return as_int(word.size()); }
  constexpr void append(std::uint64_t w, const user_entry* u) {
    word.push_back(w);
    user.push_back(u);
  }
  /// Of equal expressions the same.
  constexpr std::uint64_t hash() const {
    std::uint64_t h = loads;
    for (std::uint16_t r : root) h = h * 31 + r;
    for (std::uint64_t w : word) h = (h ^ w) * 0x9E3779B97F4A7C15u ^ h >> 31;
    return h;
  }
  friend constexpr bool operator==(const fused_code& a, const fused_code& b) {
    return a.loads == b.loads && a.root == b.root && a.word == b.word && a.user == b.user;
  }
};
/// The same as a constant: `Room` words, of which the first `size` count.
template <std::size_t Room>
struct fixed_code {
  std::size_t loads = 0;
  static_vector<std::uint16_t, max_results> root{};
  int size = 0;
  std::uint64_t word[Room]{};
  const user_entry* user[Room]{};

  constexpr explicit fixed_code(const fused_code& t) : loads(t.loads), root(t.root), size(t.size()) {
    for (int j = 0; j < size; ++j) {
      word[j] = t.word[j];
      user[j] = t.user[j];
    }
  }
  constexpr operator fused_code() const { return {loads, root, {word, word + size}, {user, user + size}}; }
};

/// Of the pass that begins with step `i`.
constexpr fused_code fused_code_of(const program_view& p, std::size_t i) {
  const indexed_span<const step> pass = pass_of(p.steps, i);
  const step& s = pass.back();
  const inner_dim inner = inner_dim_of(s, p.buffers, p.maps);
  fused_code t;
  t.loads = s.in.size();
  for (const step& one : pass) t.root.push_back(narrowed(one.ops - 1));
  t.word.reserve(s.ops);
  t.user.reserve(s.ops);
  unsigned literals = 0, indices = 0;
  for (const fused_op& o : fused_ops_of(p, s)) {
    std::uint64_t word = 0;
    switch (role_of(o.code)) {
      case fused_role::load: word = word_of(o.code, o.type, o.arg, inner.stride[o.arg], 0); break;
      case fused_role::constant:
      case fused_role::count: word = word_of(o.code, o.type, literals++, 0, 0); break;
      case fused_role::index: word = word_of(o.code, o.type, indices++, o.arg == inner.position ? 1 : 0, 0); break;
      case fused_role::user:
      case fused_role::operation: word = word_of(o.code, o.type, o.in[0], o.in[1], o.in[2]); break;
    }
    t.append(word, role_of(o.code) == fused_role::user ? o.user : nullptr);
  }
  return t;
}

/// Whether the inner dim of a fold is a folded one.
constexpr bool folds_inner(const program_view& p, std::size_t i) {
  const inner_dim inner = inner_dim_of(p.steps[i], p.buffers, p.maps);
  return inner.folded || inner.position < 0;
}

/// The function of a user's operation for an element type.
template <class T>
constexpr auto function_of(const user_entry& e) {
  if constexpr (std::is_same_v<T, double>) return e.f64.call;
  else if constexpr (std::is_same_v<T, float>) return e.f32.call;
  else if constexpr (std::is_same_v<T, std::int64_t>) return e.i64.call;
  else return e.i32.call;
}

template <std::uint64_t Word>
using element_of_word = typename element_type<type_of(Word)>::type;

template <std::uint64_t Word, const user_entry* User>
struct node_of_word {
  using value_type = element_of_word<Word>;
  using type = user_node<function_of<computed<value_type>>(*User), value_type, operand_of(Word, 0), operand_of(Word, 1),
                         operand_of(Word, 2)>;
};
template <std::uint64_t Word>
struct node_of_word<Word, nullptr> {
  using type = fused_node<int{underlying(op_of(Word))}, element_of_word<Word>, operand_of(Word, 0), operand_of(Word, 1),
                          operand_of(Word, 2)>;
};

/// The expression of the constant `code` of a type.
template <class Code>
struct expression_from {
  template <int... J>
  static auto nodes(std::integer_sequence<int, J...>)
      -> fused_expression<Code::code.loads, typename node_of_word<Code::code.word[J], Code::code.user[J]>::type...>;
  using type = decltype(nodes(std::make_integer_sequence<int, Code::code.size>{}));
};

template <class Plan, std::size_t I>
struct code_of_step {
  static constexpr std::size_t room = pass_of(Plan::frozen.steps, I).back().ops;
  static constexpr fixed_code<room> code{fused_code_of(Plan::frozen, I)};
};
/// The expression of a pass or a fold, step I of a plan.
template <class Plan, std::size_t I>
using expression_of = expression_from<code_of_step<Plan, I>>;

}}} // namespace cleave::v0::detail
