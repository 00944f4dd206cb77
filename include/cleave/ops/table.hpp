// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>
#include <cleave/ops/formula.hpp>
#include <cleave/ops/user.hpp>

#include <string_view>

namespace cleave {

/// How an op behaves when its dims are divided; propagation, partitioning and fusion are generic over this.
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
  /// Each element of the result is one of an operand, or 0; the indices follow from maps. Divided dims of both sides are
  /// independent of each other: the step fetches what it lacks.
  remap,
  /// Rows of the first operand at places that the second names: the dim in which they are places may be divided as the table is, and
  /// devices ask each other for rows.
  gather,
  /// Rows added up at places: a split of the places leaves partial tables, or devices send the rows to those who have the place.
  scatter,
  /// Running totals along one dim, in the layout of the operand: one value of each slice travels where the dim is
  /// sharded.
  cumulative,
  /// Sorting along one dim, in the layout of the operand: elements travel where the dim is sharded.
  sort,
  /// A value crosses into a loop, from trip to trip, or out of it.
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

/// One op, one entry.
struct op_entry {
  op code;
  std::string_view name;
  op_class what;
  std::uint8_t arity;
  linearity sums;
  /// Elementwise ops: the cotangent of each operand, in the letters of `symbols`; empty where nothing flows. The other classes
  /// have one rule each, in autodiff/derivative.hpp.
  formula derivative[3]{};
};

namespace detail {
using namespace symbols;

inline constexpr op_entry op_entries[] = {
    {op::input, "input", op_class::source, 0, linearity::none},
    {op::constant, "constant", op_class::source, 0, linearity::none},
    {op::count, "count", op_class::source, 0, linearity::none},
    {op::iota, "iota", op_class::source, 0, linearity::none},
    {op::neg, "neg", op_class::elementwise, 1, linearity::unary, {-g}},
    {op::abs, "abs", op_class::elementwise, 1, linearity::none, {g * sign(x)}},
    {op::sign, "sign", op_class::elementwise, 1, linearity::none},
    {op::exp, "exp", op_class::elementwise, 1, linearity::none, {g * r}},
    {op::log, "log", op_class::elementwise, 1, linearity::none, {g / x}},
    {op::tanh, "tanh", op_class::elementwise, 1, linearity::none, {g * (1 - r * r)}},
    {op::sqrt, "sqrt", op_class::elementwise, 1, linearity::none, {g * 0.5 / r}},
    {op::rsqrt, "rsqrt", op_class::elementwise, 1, linearity::none, {g * -0.5 * r * r * r}},
    {op::erf, "erf", op_class::elementwise, 1, linearity::none, {g * 1.1283791670955126 * exp(-(x * x))}},
    {op::gelu, "gelu", op_class::elementwise, 1, linearity::none, {g * gelu_slope()}},
    {op::relu, "relu", op_class::elementwise, 1, linearity::none, {select(r > 0, g, 0)}},
    {op::sigmoid, "sigmoid", op_class::elementwise, 1, linearity::none, {g * r * (1 - r)}},
    {op::sin, "sin", op_class::elementwise, 1, linearity::none, {g * cos(x)}},
    {op::cos, "cos", op_class::elementwise, 1, linearity::none, {-(g * sin(x))}},
    {op::floor, "floor", op_class::elementwise, 1, linearity::none},
    {op::conj, "conj", op_class::elementwise, 1, linearity::unary, {g}},
    {op::real, "real", op_class::elementwise, 1, linearity::unary, {g}},
    {op::imag, "imag", op_class::elementwise, 1, linearity::unary},
    {op::logical_not, "logical_not", op_class::elementwise, 1, linearity::none},
    {op::cast, "cast", op_class::elementwise, 1, linearity::none, {g}},
    {op::broadcast, "broadcast", op_class::elementwise, 1, linearity::unary, {g}},
    {op::add, "add", op_class::elementwise, 2, linearity::joint, {g, g}},
    {op::sub, "sub", op_class::elementwise, 2, linearity::difference, {g, -g}},
    {op::mul, "mul", op_class::elementwise, 2, linearity::each, {g * y, g * x}},
    {op::div, "div", op_class::elementwise, 2, linearity::quotient, {g / y, -(g * r / y)}},
    {op::pow, "pow", op_class::elementwise, 2, linearity::none, {g * select(y == 0, 0, y * pow(x, y - 1)), g * r * log(select(x == 0, 1, x))}},
    {op::maximum, "maximum", op_class::elementwise, 2, linearity::none, {g * select(x == y, 0.5, select(x > y, 1, 0)), g * select(x == y, 0.5, select(y > x, 1, 0))}},
    {op::minimum, "minimum", op_class::elementwise, 2, linearity::none, {g * select(x == y, 0.5, select(y > x, 1, 0)), g * select(x == y, 0.5, select(x > y, 1, 0))}},
    {op::complex, "complex", op_class::elementwise, 2, linearity::joint},
    {op::equal, "equal", op_class::elementwise, 2, linearity::none},
    {op::not_equal, "not_equal", op_class::elementwise, 2, linearity::none},
    {op::less, "less", op_class::elementwise, 2, linearity::none},
    {op::less_equal, "less_equal", op_class::elementwise, 2, linearity::none},
    {op::greater, "greater", op_class::elementwise, 2, linearity::none},
    {op::greater_equal, "greater_equal", op_class::elementwise, 2, linearity::none},
    {op::logical_and, "logical_and", op_class::elementwise, 2, linearity::none},
    {op::logical_or, "logical_or", op_class::elementwise, 2, linearity::none},
    {op::select, "select", op_class::elementwise, 3, linearity::branches, {formula(), select(x, g, 0), select(x, 0, g)}},
    {op::random, "random", op_class::elementwise, 3, linearity::none},
    {op::normal, "normal", op_class::elementwise, 3, linearity::none},
    {op::user, "user", op_class::elementwise, 0, linearity::none},
    {op::dot, "dot", op_class::contraction, 2, linearity::each},
    {op::reduce, "reduce", op_class::reduction, 1, linearity::unary},
    {op::call, "call", op_class::call, 0, linearity::none},
    {op::slice, "slice", op_class::remap, 1, linearity::first},
    {op::pad, "pad", op_class::remap, 1, linearity::first},
    {op::shift, "shift", op_class::remap, 1, linearity::first},
    {op::roll, "roll", op_class::remap, 1, linearity::first},
    {op::flip, "flip", op_class::remap, 1, linearity::first},
    {op::repeat, "repeat", op_class::remap, 1, linearity::first},
    {op::tile, "tile", op_class::remap, 1, linearity::first},
    {op::diagonal, "diagonal", op_class::remap, 1, linearity::first},
    {op::concat, "concat", op_class::remap, 0, linearity::none},
    {op::merge_blocks, "merge", op_class::remap, 1, linearity::first},
    {op::windows, "windows", op_class::remap, 1, linearity::first},
    {op::overlap, "overlap", op_class::remap, 1, linearity::first},
    {op::dynamic_slice, "dynamic_slice", op_class::remap, 2, linearity::first},
    {op::place, "place", op_class::remap, 2, linearity::first},
    {op::gather, "gather", op_class::gather, 2, linearity::first},
    {op::scatter, "scatter_add", op_class::scatter, 2, linearity::first},
    {op::cumulative, "cumulative", op_class::cumulative, 1, linearity::none},
    {op::sort, "sort", op_class::sort, 1, linearity::none},
    {op::argsort, "argsort", op_class::sort, 1, linearity::none},
    {op::carry, "carry", op_class::loop, 1, linearity::none},
    {op::each, "each", op_class::loop, 1, linearity::none},
    {op::next, "next", op_class::loop, 2, linearity::none},
    {op::last, "last", op_class::loop, 1, linearity::none},
    {op::collect, "collect", op_class::loop, 1, linearity::none},
    {op::trips, "trips", op_class::loop, 1, linearity::none},
    {op::until, "until", op_class::loop, 1, linearity::none},
    {op::rename, "rename", op_class::view, 1, linearity::unary},
    {op::split, "split", op_class::view, 1, linearity::unary},
    {op::merge, "merge", op_class::view, 1, linearity::unary},
    {op::constrain, "constrain", op_class::annotation, 1, linearity::unary},
    {op::reshard, "reshard", op_class::annotation, 1, linearity::unary},
    {op::identity, "identity", op_class::annotation, 1, linearity::unary},
    {op::stop_gradient, "stop_gradient", op_class::annotation, 1, linearity::unary},
    {op::barrier, "barrier", op_class::annotation, 1, linearity::unary},
};

} // namespace detail

inline constexpr const auto& op_table = detail::op_entries;

/// The entry of an op. The table is in the order of the enumeration, which the loop below proves.
constexpr const op_entry& entry_of(op code) { return op_table[static_cast<std::size_t>(code)]; }

namespace detail {
constexpr bool table_in_order() {
  std::size_t i = 0;
  for (const op_entry& e : op_table)
    if (static_cast<std::size_t>(e.code) != i++) return false;
  return true;
}
static_assert(table_in_order());
} // namespace detail

constexpr std::string_view name_of(op code) { return entry_of(code).name; }
constexpr std::string_view name_of(const node& n) { return n.user != nullptr ? n.user->name : name_of(n.code); }
constexpr op_class class_of(op code) { return entry_of(code).what; }
/// Which operands may be partial sums of such elements, of those that are (bit set). 0: none may.
constexpr std::uint8_t partial_operands_of(op code, element of, std::uint8_t partial) {
  switch (entry_of(code).sums) {
    case linearity::none: return 0;
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
constexpr bool is_comparison(op code) { return code >= op::equal && code <= op::greater_equal; }
/// What has a meaning for complex numbers as they are: nothing that needs an order.
constexpr bool takes_complex(op code) {
  switch (code) {
    case op::neg:
    case op::abs:
    case op::exp:
    case op::log:
    case op::tanh:
    case op::sqrt:
    case op::rsqrt:
    case op::sin:
    case op::cos:
    case op::conj:
    case op::real:
    case op::imag:
    case op::cast:
    case op::broadcast:
    case op::add:
    case op::sub:
    case op::mul:
    case op::div:
    case op::pow:
    case op::equal:
    case op::not_equal:
    case op::select: return true;
    default: return false;
  }
}

} // namespace cleave
