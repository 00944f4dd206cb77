// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_number.hpp>
#include <cleave/base/underlying.hpp>
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

namespace cleave::inline v0::detail {

/// The parts of a node of an expression: its op, the element type of its result, and where its operands are (see
/// fused_node).
constexpr std::uint64_t word_of(op code, element type, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return underlying(code) | std::uint64_t{underlying(type)} << 8 | a << 16 | b << 24 | c << 32;
}

/// All that the code of a fused expression depends on, one word for each operation.
struct fused_code {
  int size = 0;
  std::size_t loads = 0;
  std::uint64_t word[max_fused_ops]{};
  const user_entry* user[max_fused_ops]{};

  /// Of equal expressions the same.
  constexpr std::uint64_t hash() const {
    std::uint64_t h = loads;
    for (int j = 0; j < size; ++j) h = (h ^ word[j]) * 0x9E3779B97F4A7C15u ^ h >> 31;
    return h;
  }
  friend constexpr bool operator==(const fused_code& a, const fused_code& b) {
    if (a.size != b.size || a.loads != b.loads) return false;
    for (int j = 0; j < a.size; ++j)
      if (a.word[j] != b.word[j] || a.user[j] != b.user[j]) return false;
    return true;
  }
};

constexpr fused_code fused_code_of(const program_view& p, const step& s) {
  const inner_dim inner = inner_dim_of(s, p.buffers, p.maps);
  fused_code t;
  t.loads = s.in.size();
  unsigned literals = 0, indices = 0;
  for (const fused_op& o : fused_ops_of(p, s)) {
    std::uint64_t& word = t.word[t.size];
    switch (role_of(o.code)) {
      case fused_role::load: word = word_of(o.code, o.type, o.arg, inner.stride[o.arg], 0); break;
      case fused_role::constant:
      case fused_role::count: word = word_of(o.code, o.type, literals++, 0, 0); break;
      case fused_role::index: word = word_of(o.code, o.type, indices++, o.arg == inner.position ? 1 : 0, 0); break;
      case fused_role::user: t.user[t.size] = o.user; [[fallthrough]];
      case fused_role::operation: word = word_of(o.code, o.type, o.in[0], o.in[1], o.in[2]); break;
    }
    ++t.size;
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

constexpr int byte_of(std::uint64_t word, int i) { return as_int(word >> 8 * i & 0xff); }
template <std::uint64_t Word>
using element_of_word = typename element_type<static_cast<element>(byte_of(Word, 1))>::type;

template <std::uint64_t Word, const user_entry* User>
struct node_of_word {
  using value_type = element_of_word<Word>;
  using type = user_node<function_of<computed<value_type>>(*User), value_type, byte_of(Word, 2), byte_of(Word, 3),
                         byte_of(Word, 4)>;
};
template <std::uint64_t Word>
struct node_of_word<Word, nullptr> {
  using type =
      fused_node<byte_of(Word, 0), element_of_word<Word>, byte_of(Word, 2), byte_of(Word, 3), byte_of(Word, 4)>;
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
  static constexpr fused_code code = fused_code_of(Plan::frozen, Plan::frozen.steps[I]);
};
/// The expression of a map or fold, step I of a plan.
template <class Plan, std::size_t I>
using expression_of = expression_from<code_of_step<Plan, I>>;

} // namespace cleave::inline v0::detail
