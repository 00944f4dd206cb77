// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/ops/user.hpp>
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
};

/// Of the pass that begins with step `i`. `end`: of one of its boxes.
constexpr fused_code fused_code_of(const program_view& p, std::size_t i, const index_bound* end = nullptr) {
  const indexed_span<const step> pass = pass_of(p.steps, i);
  const step& s = pass.back();
  const inner_dim inner = inner_dim_of(s, p.buffers, p.maps);
  const bool resolved = end != nullptr && end->first_op != s.first_op;
  const indexed_span<const fused_op> ops = resolved ? fused_ops_of(p, *end) : fused_ops_of(p, s);
  fused_code t;
  t.loads = s.in.size();
  for (std::size_t k = 0; k < pass.size(); ++k)
    t.root.push_back(narrowed((resolved ? ops.size() - pass.size() + k + 1 : pass[k].ops) - std::size_t{1}));
  t.word.reserve(ops.size());
  t.user.reserve(ops.size());
  unsigned literals = 0, indices = 0;
  for (const fused_op& o : ops) {
    std::uint64_t word = 0;
    switch (role_of(o.code)) {
      case fused_role::load: word = word_of(o.code, o.type, o.arg, inner.stride[o.arg], 0); break;
      case fused_role::constant:
      case fused_role::count: word = word_of(o.code, o.type, literals++, 0, 0); break;
      case fused_role::index: word = word_of(o.code, o.type, indices++, o.arg == inner.position ? 1 : 0, 0); break;
      case fused_role::user:
      // A comparison with a label has two operands.
      case fused_role::operation: word = word_of(o.code, o.type, o.in[0], o.in[1], o.in[2] + o.arg); break;
    }
    t.append(word, role_of(o.code) == fused_role::user ? o.user : nullptr);
  }
  return t;
}

/// How many expressions a step evaluates, each in boxes of its own.
constexpr std::size_t expressions_of(const program_view& p, const step& s) {
  std::size_t count = 1;
  for (const index_bound& b : bounds_of(p, s))
    if (b.ends && b.expression >= count) count = b.expression + std::size_t{1};
  return count;
}
/// The end of the first box that has expression `v`; null: the step has no boxes.
constexpr const index_bound* box_with(const program_view& p, const step& s, std::size_t v) {
  for (const index_bound& b : bounds_of(p, s))
    if (b.ends && b.expression == v) return &b;
  return nullptr;
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

/// Expression `V` of step `I`.
template <class Plan, std::size_t I, std::size_t V = 0>
struct code_of_step {
  static constexpr const index_bound* end = box_with(Plan::frozen, Plan::frozen.steps[I], V);
  static constexpr std::size_t room = end != nullptr ? end->ops : pass_of(Plan::frozen.steps, I).back().ops;
  static constexpr fixed_code<room> code{fused_code_of(Plan::frozen, I, end)};
};
/// The expression of a pass or a fold, step I of a plan.
template <class Plan, std::size_t I>
using expression_of = expression_from<code_of_step<Plan, I>>;

}}} // namespace cleave::v0::detail
