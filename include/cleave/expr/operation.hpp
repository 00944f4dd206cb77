// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/recorded_calls.hpp>
#include <cleave/expr/statement.hpp>

namespace cleave {

namespace detail {

template <class Op>
struct elementwise_call {
  template <std::convertible_to<operand>... X>
  constexpr value operator()(const X&... x) const {
    return record(std::array{operand(x)...});
  }
  template <std::size_t N>
  static constexpr value record(const std::array<operand, N>& args) {
    recorder* in = nullptr;
    source where{};
    element type = element::none;
    for (std::size_t i = N; i-- > 0;)
      if (!args[i].is_literal) {
        in = args[i].from.in;
        where = args[i].where;
        if (!args[i].from.ok()) return args[i].from;
        type = in->at(args[i].from).type.element;
      }
    constexpr const user_entry& entry = elementwise_operation<Op>;
    if constexpr (entry.arity == 0) return in->fail(fault::already_said, entry.name, where);
    if constexpr (entry.arity != N) return in->fail(fault::operand_count, entry.name, where, {}, {}, entry.arity, N);
    std::array<value, N> values{};
    for (std::size_t i = 0; i < N; ++i) values[i] = args[i].is_literal ? in->constant(args[i].literal, type, args[i].where) : args[i].from;
    return in->elementwise(op::user, values, where, element::none, false, &entry);
  }
};

} // namespace detail

/// A user's elementwise operation, used like ours: fused into chains, differentiated by the formulas of its entry. `Op` is a
/// struct at namespace scope with a static constexpr `elementwise_entry entry` and a call operator marked CLEAVE_FUNCTION
/// that takes one, two or three numbers of one type and returns one: `inline constexpr cleave::operation<softplus> soft;`.
/// Element types: float, double, int32 and int64, as far as the call operator takes them, and 16-bit floating-point numbers, which
/// it gets as float. No communication.
template <class Op>
struct operation {
  static_assert(detail::elementwise_operation<Op>.arity <= max_arity);

  constexpr value operator()(operand x) const { return detail::elementwise_call<Op>::record(std::array{x}); }
  constexpr value operator()(operand x, operand y) const { return detail::elementwise_call<Op>::record(std::array{x, y}); }
  constexpr value operator()(operand x, operand y, operand z) const { return detail::elementwise_call<Op>::record(std::array{x, y, z}); }

  template <class... X>
    requires(Statement<X> || ...)
  constexpr auto operator()(const X&... x) const {
    return detail::make_expression(detail::elementwise_call<Op>{}, x...);
  }
};

/// Dims that a kernel needs whole: not divided in its operands and its result. Notes the line of the call that it is part of.
template <class... D>
struct whole {
  static constexpr std::array<dim_ref, sizeof...(D)> dims{D::ref...};
  source where{};

  constexpr explicit whole(const D&..., const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) : where{file, line} {}
};
template <Dim... D>
whole(const D&...) -> whole<D...>;

/// The element type and dims of what a kernel returns; in manual mode with its layout.
template <class T, class... D>
struct result_dims {
  using element_type = T;
  static constexpr std::array<dim_ref, sizeof...(D)> dims{D::ref...};
};
template <class T, Dim... D>
constexpr result_dims<T, std::remove_cvref_t<D>...> result(const D&...) {
  return {};
}
template <class T, class Sharding>
struct result_layout {
  using element_type = T;
  using sharding_type = Sharding;
  source where{};
};
template <class T, class Mesh, class Unreduced, class... Placements>
constexpr result_layout<T, sharding<Mesh, Unreduced, Placements...>> result(const sharding<Mesh, Unreduced, Placements...>&,
                                                                           const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  return {{file, line}};
}

namespace detail {

template <class Op, class Whole, class Result>
struct shard_call {
  source where{};

  template <std::convertible_to<operand>... X>
  constexpr value operator()(const X&... x) const {
    const std::array<operand, sizeof...(X)> args{operand(x)...};
    std::array<value, sizeof...(X)> values{};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = args[i].from;
    recorder& in = *values[0].in;
    for (const value& v : values)
      if (!v.ok()) return v;
    if constexpr (sizeof...(X) > max_arity) {
      return in.fail(fault::operand_count, Op::name, where, {}, {}, max_arity, sizeof...(X));
    } else if constexpr (requires { typename Result::sharding_type; }) {
      return detail::recorded_local_call(in, shard_operation<Op>, values, element_of<typename Result::element_type>, typename Result::sharding_type{}, where);
    } else if constexpr (std::is_void_v<Result>) {
      return detail::recorded_call(in, shard_operation<Op>, values, Whole::dims, in.at(values[0]).type, where);
    } else {
      return detail::recorded_call(in, shard_operation<Op>, values, Whole::dims, detail::type_named(in, element_of<typename Result::element_type>, Result::dims, where), where);
    }
  }
};
template <class Op, class Whole, class Result, class... X>
constexpr auto shards_to(source where, const X&... x) {
  if constexpr ((Statement<X> || ...)) return make_expression(shard_call<Op, Whole, Result>{}, x...);
  else return shard_call<Op, Whole, Result>{where}(x...);
}

} // namespace detail

/// A user's operation on shards: `call<cumulative>(whole(time), x)`. `Op` is a struct with a static constexpr `name` and a call
/// operator that gets a local_context, the shards of the operands and the shard of the result, to be filled. The result
/// has the type of the first operand, or that of `result<float>(batch)` given after `whole`. Dims named in `whole`, and
/// those of operands that the result does not have, are not divided; the planner divides the others as it likes, alike in
/// all operands. A static `reference` on doubles lets it be simulated; for a derivative, wrap the call in custom_vjp.
template <class Op, class... W, class... X>
  requires(sizeof...(X) > 0)
constexpr auto call(const whole<W...>& w, const X&... x) {
  return detail::shards_to<Op, whole<W...>, void>(w.where, x...);
}
template <class Op, class... W, class T, class... D, class... X>
constexpr auto call(const whole<W...>& w, const result_dims<T, D...>&, const X&... x) {
  return detail::shards_to<Op, whole<W...>, result_dims<T, D...>>(w.where, x...);
}

/// Manual mode, as shard_map has it: `local<Op>(result<float>(mesh(batch / data)), reshard(x, mesh(batch / data)), w)`. Operands come
/// in the layouts to which they are resharded, whole where they are not; the result is what the kernel leaves on every
/// device, in the layout given, which may be unreduced. The kernel may communicate through its context, the same on all
/// devices; what it moves is priced by a static `bytes`, if it has one.
template <class Op, class T, class Sharding, class... X>
constexpr auto local(const result_layout<T, Sharding>& r, const X&... x) {
  return detail::shards_to<Op, whole<>, result_layout<T, Sharding>>(r.where, x...);
}

} // namespace cleave
