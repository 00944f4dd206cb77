// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/rejected.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/ops/formula.hpp>

#include <concepts>
#include <span>

namespace cleave { inline namespace v0 {

/// The argument of a user's kernel when it runs; execute/local.hpp.
struct shard;
class local_context;

/// The dims of a shard by name, in memory order.
struct shard_dims {
  fixed_array<std::string_view, max_rank> names{};

  /// The position of a dim, or -1 if the tensor does not have it.
  constexpr int find(dim_ref d) const {
    for (int i = 0; i < max_rank; ++i)
      if (names[i] == d.name) return i;
    return -1;
  }
};
namespace detail {
/// The extents of the array of a shard and its halo.
template <class Shard>
constexpr shape extents_with_halo(const Shard& s) {
  shape all = s.local;
  for (int i = 0; i < all.rank; ++i) all[i] += s.before[i] + s.after[i];
  return all;
}
/// The dims of a type in the table of its graph or program.
template <class Table>
constexpr shard_dims named_dims(const tensor_type& type, const Table& table) {
  shard_dims d;
  for (int i = 0; i < type.rank; ++i) d.names[i] = table[type[i]].name;
  return d;
}
} // namespace detail

/// A shard in the plain evaluator and the simulator, which compute in doubles: LayoutRight, with `local` extents and
/// the halo before and after it.
struct reference_shard {
  shape global{}, local{}, offset{}, before{}, after{};
  double* data = nullptr;
  shard_dims dims{};
};

/// Describes an elementwise operation of yours: its name and the cotangents of its operands, written with `symbols`.
/// Without formulas the operation has no derivative, and asking for one is an error.
struct elementwise_entry {
  std::string_view name;
  formula derivative[3]{};
};

/// A user's operation as the passes see it: the entry of ops/table.hpp, with functions in place of cases.
struct user_entry {
  std::string_view name{};
  formula derivative[3]{};
  bool differentiable = false;
  /// Elementwise: the number of operands, and the function by element type; null if it has none.
  std::uint8_t arity = 0;
  optional_function<double(double, double, double)> f64{};
  optional_function<float(float, float, float)> f32{};
  optional_function<std::int32_t(std::int32_t, std::int32_t, std::int32_t)> i32{};
  optional_function<std::int64_t(std::int64_t, std::int64_t, std::int64_t)> i64{};
  /// On shards: the kernel, its meaning on doubles (null: the evaluator and the simulator cannot run it), and the bytes
  /// that it moves on the busiest device, from the largest local extents of its operands and its result and from their
  /// whole extents.
  void (*on_shards)(const local_context&, std::span<const shard>, const shard&) = nullptr;
  void (*reference)(std::span<const reference_shard>, const reference_shard&) = nullptr;
  /// On shards: the result begins as the first operand, perhaps in its memory, and the kernel changes it.
  bool in_place = false;
  optional_function<std::int64_t(indexed_span<const shape>, indexed_span<const shape>, const axis_sizes&)> bytes{};
  /// On shards: the floating-point operations of all devices, from the whole extents of its operands and its result and
  /// from the result's dims. Null: the planner may repeat the work.
  optional_function<double(indexed_span<const shape>, const shard_dims&)> flops{};
  /// On shards: the bytes of scratch memory that the kernel needs on a device, from the local extents of its operands
  /// and its result, from their whole extents, and from the coordinates of the device. Null: none.
  optional_function<std::int64_t(indexed_span<const shape>, indexed_span<const shape>, const axis_sizes&,
                                 const coordinates&)>
      workspace{};
  /// The same from the context and the shards, which only a run has.
  optional_function<std::int64_t(const local_context&, std::span<const shard>)> workspace_here{};

  constexpr bool takes(element e) const {
    switch (e) {
      case element::f64: return f64.given;
      case element::f32:
      case element::bf16:
      case element::f16: return f32.given;
      case element::i32: return i32.given;
      case element::i64: return i64.given;
      default: return false;
    }
  }
};

namespace detail {

/// The functor of a user as plain functions, which kernels take as template arguments.
template <class Op, class T, int Arity>
struct user_function {
  CLEAVE_FUNCTION static T apply(T x, [[maybe_unused]] T y, [[maybe_unused]] T z) {
    if constexpr (Arity == 1) return Op{}(x);
    else if constexpr (Arity == 2) return Op{}(x, y);
    else return Op{}(x, y, z);
  }
};
template <class Op, class T>
constexpr int arity_for() {
  if constexpr (requires(T x) {
                  { Op{}(x) } -> std::same_as<T>;
                })
    return 1;
  else if constexpr (requires(T x) {
                       { Op{}(x, x) } -> std::same_as<T>;
                     })
    return 2;
  else if constexpr (requires(T x) {
                       { Op{}(x, x, x) } -> std::same_as<T>;
                     })
    return 3;
  else return 0;
}
template <class Op, class T>
constexpr optional_function<T(T, T, T)> function_for() {
  if constexpr (arity_for<Op, T>() != 0) return &user_function<Op, T, arity_for<Op, T>()>::apply;
  else return nullptr;
}

/// The one entry of an elementwise operation.
template <class Op>
inline constexpr user_entry elementwise_operation = [] {
  constexpr int by_type[] = {arity_for<Op, double>(), arity_for<Op, float>(), arity_for<Op, std::int32_t>(),
                             arity_for<Op, std::int64_t>()};
  if constexpr (by_type[0] + by_type[1] + by_type[2] + by_type[3] == 0) say(rejection<fault::not_elementwise, Op>);
  user_entry e;
  e.name = Op::entry.name;
  for (int i = 0; i < 3; ++i) {
    e.derivative[i] = Op::entry.derivative[i];
    e.differentiable = e.differentiable || !e.derivative[i].empty();
  }
  for (int n : by_type)
    if (n != 0) e.arity = static_cast<std::uint8_t>(n);
  e.f64 = function_for<Op, double>();
  e.f32 = function_for<Op, float>();
  e.i32 = function_for<Op, std::int32_t>();
  e.i64 = function_for<Op, std::int64_t>();
  return e;
}();

/// For a functor that formulas apply: before these formulas, and after the functor. In the namespace of Cleave.
#define CLEAVE_IN_FORMULAS(Op) \
  template <>                  \
  constexpr const user_entry& detail::entry_in_formulas<Op>();
#define CLEAVE_ENTRY_IN_FORMULAS(Op)                            \
  template <>                                                   \
  constexpr const user_entry& detail::entry_in_formulas<Op>() { \
    return detail::elementwise_operation<Op>;                   \
  }

/// The one entry of an operation on shards, and those of its functions that plans call. Its functor is only
/// instantiated if a program runs it.
template <class Op>
struct shard_function {
  static void run(const local_context& c, std::span<const shard> in, const shard& out) { Op{}(c, in, out); }
  static constexpr std::int64_t bytes(indexed_span<const shape> shards, indexed_span<const shape> whole,
                                      const axis_sizes& axes) {
    const std::span local(shards.data(), shards.size());
    if constexpr (requires { Op::bytes(local, local, axes); })
      return Op::bytes(local, std::span(whole.data(), whole.size()), axes);
    else return Op::bytes(local, axes);
  }
  static constexpr double flops(indexed_span<const shape> whole, const shard_dims& of_result) {
    return Op::flops(std::span(whole.data(), whole.size()), of_result);
  }
  static constexpr std::int64_t workspace(indexed_span<const shape> shards,
                                          [[maybe_unused]] indexed_span<const shape> whole,
                                          [[maybe_unused]] const axis_sizes& axes,
                                          [[maybe_unused]] const coordinates& here) {
    const std::span local(shards.data(), shards.size());
    if constexpr (requires { Op::workspace(local, local, axes, here); })
      return Op::workspace(local, std::span(whole.data(), whole.size()), axes, here);
    else return Op::workspace(local);
  }
  static std::int64_t workspace_here(const local_context& c, std::span<const shard> all) {
    return Op::workspace(c, all);
  }
};
template <class Op>
inline constexpr user_entry shard_operation = [] {
  user_entry e;
  e.name = Op::name;
  e.on_shards = &shard_function<Op>::run;
  if constexpr (requires { &Op::reference; }) e.reference = &Op::reference;
  if constexpr (requires { Op::in_place; }) e.in_place = Op::in_place;
  if constexpr (requires { &Op::bytes; }) e.bytes = &shard_function<Op>::bytes;
  if constexpr (requires { &Op::flops; }) e.flops = &shard_function<Op>::flops;
  if constexpr (requires(const local_context& c, std::span<const shard> all) { Op::workspace(c, all); })
    e.workspace_here = &shard_function<Op>::workspace_here;
  else if constexpr (requires { &Op::workspace; }) e.workspace = &shard_function<Op>::workspace;
  return e;
}();

} // namespace detail

}} // namespace cleave::v0
