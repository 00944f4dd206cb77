// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>
#include <cleave/ops/formula.hpp>
#include <cleave/ops/slopes.hpp>
#include <cleave/ops/user.hpp>

#include <iterator>
#include <string_view>

namespace cleave { inline namespace v0 {

/// How an op behaves when its dims are sharded; propagation, partitioning and fusion are generic over this.
enum class op_class : std::uint8_t {
  /// No operand.
  source,
  /// Result dims are the union of the operands' dims; every dim is a factor that may be split freely.
  elementwise,
  /// Every dim is a factor; a split of a contracted or reduced one leaves a partial value.
  contraction,
  reduction,
  /// Shards in, a shard out: dims by name are factors, unless they must be whole.
  call,
  /// Each element of the result is one of an operand, or 0; the indices follow from maps. Sharded dims of both sides
  /// are independent of each other: the step fetches the missing elements.
  remap,
  /// Rows of the first operand at the indices of the second. The dim that is indexed may be sharded in the table, and
  /// devices ask each other for rows.
  gather,
  /// Rows added up at indices. Sharded indices leave partial tables, or devices send rows to those that own their
  /// index.
  scatter,
  /// Running totals along one dim, in the layout of the operand: one value of each slice is sent if the dim is sharded.
  cumulative,
  /// Sorting along one dim, in the layout of the operand: elements are exchanged if the dim is sharded.
  sort,
  /// A value crosses into a loop, from one iteration to the next, or out of it.
  loop,
  /// The same elements under other dims; a factor is a dim of the finer side.
  view,
  /// States something about a value, computes nothing.
  annotation,
};
inline constexpr std::size_t op_class_count = 13;
static_assert(static_cast<std::size_t>(op_class::annotation) + 1 == op_class_count);

/// In which operands an op is linear, so that a partial sum may pass through.
enum class linearity : std::uint8_t {
  none,
  /// One operand.
  unary,
  /// Jointly: f(a + a', b + b') = f(a, b) + f(a', b'). Both operands must be partial together.
  joint,
  /// Jointly, of elements with negatives: a sum of predicates is "or", which has none.
  difference,
  /// In either operand while the others are whole.
  each,
  /// In the first operand while the others are whole.
  first,
  /// In the first operand, of elements with inverses: quotients of integers are truncated.
  quotient,
  /// In the operands after the first, jointly, while the first is whole.
  branches,
};

/// Further properties of an elementwise op. A set of bits; an op without any is `plain`.
namespace op_traits {
inline constexpr std::uint16_t plain = 0;
/// Has a meaning for complex numbers: it needs no order.
inline constexpr std::uint16_t complex_too = 1;
/// The element type of the result: bool, the real one of a complex type, or the complex one of two parts. Without these
/// it is that of the operands, or one that the program names.
inline constexpr std::uint16_t to_bool = 2, to_real = 4, to_complex = 8;
/// The first operand is a predicate, which chooses between the others.
inline constexpr std::uint16_t by_predicate = 16;
/// Has hardly a meaning for integers: all that is left of exp(1) is 2.
inline constexpr std::uint16_t needs_fractions = 32;
/// Computing it takes about as long as storing the result of float and reading it once, so that two readers may compute
/// it instead; or longer, so that it is computed once. An op without either takes a few instructions.
inline constexpr std::uint16_t slow = 64, slowest = 128;
/// Of a predicate, where it does not hold.
inline constexpr std::uint16_t negates = 256;
} // namespace op_traits

/// One op, one entry, made from its line in graph/op_list.hpp.
struct op_entry {
  op code;
  std::string_view name;
  op_class what;
  std::uint8_t arity;
  linearity sums;
  std::uint16_t traits = op_traits::plain;
  /// Elementwise ops: the cotangent of each operand, in the letters of `symbols`; empty if no gradient flows. The other
  /// classes have one rule each.
  formula derivative[3]{};
  /// The sign between its two operands; empty if users write its name.
  std::string_view sign{};
};

namespace detail::op_list {
using namespace symbols;
using namespace op_traits;
using slopes::bell;

inline constexpr op_entry entries[] = {
#define CLEAVE_OP(code, what, arity, sums) {op::code, #code, op_class::what, arity, linearity::sums},
#define CLEAVE_ELEMENTWISE(code, arity, sums, traits, meaning, ...) \
  {op::code, #code, op_class::elementwise, arity, linearity::sums, traits, {__VA_ARGS__}},
#define CLEAVE_INFIX(code, sign, sums, traits, meaning, ...) \
  {op::code, #code, op_class::elementwise, 2, linearity::sums, traits, {__VA_ARGS__}, sign},
#include <cleave/graph/op_list.hpp>
};

} // namespace detail::op_list

/// The entry of an op is at its enumerator: both are made from one list.
inline constexpr const auto& op_table = detail::op_list::entries;
constexpr const op_entry& entry_of(op code) { return op_table[static_cast<std::size_t>(code)]; }

namespace detail {
/// The columns of the table that code reads at run time, so that a program does not carry the rest: 100 KB of formulas.
struct op_columns {
  std::string_view name[std::size(op_list::entries)];
  op_class what[std::size(op_list::entries)];
  std::uint8_t arity[std::size(op_list::entries)];
  std::uint16_t traits[std::size(op_list::entries)];
};
inline constexpr op_columns columns_of_ops = [] {
  op_columns columns{};
  for (std::size_t i = 0; i < std::size(op_list::entries); ++i) {
    columns.name[i] = op_list::entries[i].name;
    columns.what[i] = op_list::entries[i].what;
    columns.arity[i] = op_list::entries[i].arity;
    columns.traits[i] = op_list::entries[i].traits;
  }
  return columns;
}();
} // namespace detail
constexpr std::string_view name_of(op code) { return detail::columns_of_ops.name[static_cast<std::size_t>(code)]; }
/// Whether nodes of this code have an entry of the user.
constexpr bool is_of_user(op code) { return code == op::user || code == op::call; }
constexpr std::string_view name_of(const node& n) { return is_of_user(n.code) ? n.user->name : name_of(n.code); }
constexpr op_class class_of(op code) { return detail::columns_of_ops.what[static_cast<std::size_t>(code)]; }
constexpr int arity_of(op code) { return detail::columns_of_ops.arity[static_cast<std::size_t>(code)]; }
/// Whether partial sums may pass through a node.
constexpr bool passes_sums(const node& n) {
  return entry_of(n.code).sums != linearity::none || (n.code == op::cast && n.scalar == rounds_partial_sums);
}
/// The operands that may be partial sums of such elements, of those that are (bit set). 0: none may.
constexpr std::uint8_t partial_operands_of(const node& n, element of, std::uint8_t partial) {
  switch (entry_of(n.code).sums) {
    case linearity::none: return passes_sums(n) ? partial & 1 : 0;
    case linearity::unary: return partial & 1;
    case linearity::joint: return partial == 3 ? 3 : 0;
    case linearity::difference: return partial == 3 && of != element::boolean ? 3 : 0;
    case linearity::each: return partial == 1 || partial == 2 ? partial : 0;
    case linearity::first: return partial == 1 ? 1 : 0;
    case linearity::quotient: return partial == 1 && (is_floating(of) || is_complex(of)) ? 1 : 0;
    case linearity::branches: return partial == 6 ? 6 : 0;
  }
  return 0;
}

constexpr bool is_elementwise(op code) { return class_of(code) == op_class::elementwise; }
constexpr bool has_trait(op code, std::uint16_t trait) {
  return (detail::columns_of_ops.traits[static_cast<std::size_t>(code)] & trait) != 0;
}
/// The first operand of the type in which an op computes: after a predicate that chooses between the others.
constexpr std::size_t typed_operand(op code) { return has_trait(code, op_traits::by_predicate) ? 1 : 0; }

/// The role of an entry of a fused expression in a kernel: a load, a number that is known when the kernel starts, an
/// index, or an operation.
enum class fused_role : std::uint8_t { load, constant, count, index, user, operation };
constexpr fused_role role_of(op code) {
  switch (code) {
    case op::input: return fused_role::load;
    case op::constant: return fused_role::constant;
    case op::count: return fused_role::count;
    case op::iota: return fused_role::index;
    case op::user: return fused_role::user;
    default: return fused_role::operation;
  }
}
/// Copies an entry of a fused expression: a cast to its own type.
inline constexpr op copying = op::cast;

/// The pairs of operands, each 0 or 1, of which an operation is not 0: a set of bits. Of a comparison, the orders in
/// which it holds.
namespace operand_order {
inline constexpr std::uint8_t equal = 1, less = 2, greater = 4, ones = 8;
}
namespace detail {
/// The result of an operation that is written as a sign between its operands, by its entry.
constexpr double result_of_sign(op code, double x, double y) {
  switch (code) {
#define CLEAVE_INFIX(code, sign, linearity, traits, meaning, ...) \
  case op::code: return meaning;
#include <cleave/graph/op_list.hpp>
    default: return 0;
  }
}
} // namespace detail
/// Of an operation that is written as a sign between its operands; none of others.
constexpr std::uint8_t outcomes_of(op code) {
  if (entry_of(code).sums == linearity::quotient) return 0; // it would divide by 0
  const auto bit = [=](double x, double y, int b) { return detail::result_of_sign(code, x, y) != 0 ? b : 0; };
  return narrowed(bit(0, 0, operand_order::equal) | bit(0, 1, operand_order::less) | bit(1, 0, operand_order::greater) |
                  bit(1, 1, operand_order::ones));
}
constexpr bool is_comparison(op code) { return has_trait(code, op_traits::to_bool) && outcomes_of(code) != 0; }

}} // namespace cleave::v0
