// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/rules/call.hpp>

namespace cleave { inline namespace v0 {

namespace detail {

template <class Op>
struct elementwise_call {
  template <std::convertible_to<operand>... X>
  constexpr value operator()(const X&... x) const {
    return record(std::array{operand(x)...});
  }
  template <std::size_t N>
  static constexpr value record(const std::array<operand, N>& args) {
    constexpr const user_entry& entry = elementwise_operation<Op>;
    if constexpr (entry.arity == N) {
      return record_elementwise(op::user, args, element::none, &entry);
    } else {
      constexpr fault what = entry.arity == 0 ? fault::already_reported : fault::operand_count;
      for (const operand& x : args)
        if (!x.is_literal && x.from.in != nullptr)
          return x.from.in->fail(what, entry.name, x.where, {}, {}, entry.arity, N);
      return {};
    }
  }
};

} // namespace detail

/// Your own elementwise operation. It is used like a built-in one: fused into chains, and differentiated by the
/// formulas of its entry. `Op` is a struct at namespace scope with a static constexpr `elementwise_entry entry` and a
/// call operator, marked CLEAVE_FUNCTION, that takes one, two or three numbers of one type and returns that type:
/// `inline constexpr cleave::operation<softplus> soft;`. Element types: float, double, int32 and int64, if the call
/// operator takes them, and 16-bit floating-point numbers, which it receives as float. No communication. Faults:
/// operand_count, no_function_for_element, no_derivative.
template <class Op>
struct operation {
  static_assert(detail::elementwise_operation<Op>.arity <= max_arity);

  /// Records the operation.
  constexpr value operator()(operand x) const { return detail::elementwise_call<Op>::record(std::array{x}); }
  constexpr value operator()(operand x, operand y) const {
    return detail::elementwise_call<Op>::record(std::array{x, y});
  }
  constexpr value operator()(operand x, operand y, operand z) const {
    return detail::elementwise_call<Op>::record(std::array{x, y, z});
  }

  /// A mistake: too many operands. Fault: operand_count.
  template <std::convertible_to<operand>... X>
  constexpr value operator()(operand x, operand y, operand z, operand fourth, const X&... more) const {
    return detail::elementwise_call<Op>::record(std::array{x, y, z, fourth, operand(more)...});
  }

  template <class... X>
    requires(Statement<X> || ...)
  constexpr auto operator()(const X&... x) const {
    return detail::make_expression(detail::elementwise_call<Op>{}, x...);
  }
};

/// The dims that a kernel needs unsharded in its operands and its result: the first argument of `call`. It records the
/// line of the call.
template <class... D>
struct whole {
  static constexpr std::array<dim_ref, sizeof...(D)> dims{D::ref...};
  source where{};

  /// Deduces the dims.
  constexpr explicit whole(const D&..., const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : where{file, line} {}
};
template <Dim... D>
whole(const D&...) -> whole<D...>;

/// The element type and dims of the result of a kernel: the type of `result<float>(row, col)`.
template <class T, class... D>
struct result_dims {
  using element_type = T;
  static constexpr std::array<dim_ref, sizeof...(D)> dims{D::ref...};
};
/// The result of a kernel. With dims, for `call`: its element type and dims. With a sharding, for `local`: its element
/// type and layout.
template <class T, Dim... D>
constexpr result_dims<T, std::remove_cvref_t<D>...> result(const D&...) {
  return {};
}
/// The element type and layout of the result of a kernel in manual mode: the type of
/// `result<float>(mesh(batch / data))`.
template <class T, class Sharding>
struct result_layout {
  using element_type = T;
  using sharding_type = Sharding;
  source where{};
};
template <class T, class Mesh, class Unreduced, class... Placements>
constexpr result_layout<T, sharding<Mesh, Unreduced, Placements...>> result(
    const sharding<Mesh, Unreduced, Placements...>&, const char* file = __builtin_FILE(),
    unsigned line = __builtin_LINE()) {
  return {{file, line}};
}

/// An operand of a kernel on shards, and how far the kernel reads around its shards along some dims.
struct kernel_operand {
  operand it;
  /// Elements around a shard, along each dim on both sides.
  std::int64_t width = 0;
  static_vector<dim_map, 3> halo{};
  /// A dim along which there can be none.
  std::string_view refused{};

  constexpr kernel_operand(const operand& x) : it(x) {}
};

namespace detail {

template <class Op, class Whole, class Result>
struct shard_call {
  source where{};

  template <class X>
  static constexpr bool has_halo = requires(const X& x) { x.as_kernel_operand(); };
  template <class X>
  static constexpr bool takes = has_halo<X> || std::convertible_to<X, operand>;
  template <class X>
  static constexpr kernel_operand operand_of(const X& x) {
    if constexpr (has_halo<X>) return x.as_kernel_operand();
    else return operand(x);
  }
  template <class... X>
    requires(takes<X> && ...)
  constexpr value operator()(const X&... x) const {
    const std::array<kernel_operand, sizeof...(X)> args{operand_of(x)...};
    std::array<value, sizeof...(X)> values{};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = args[i].it.from;
    recorder& in = *values[0].in;
    for (const value& v : values)
      if (!v.ok()) return v;
    indexed_vector<dim_map> halos;
    std::int64_t least = 0;
    for (const kernel_operand& a : args)
      if (!a.refused.empty()) return in.fail(fault::halo_of_kernel, Op::name, where, a.refused);
    for (std::size_t i = 0; i < args.size(); ++i)
      for (dim_map m : args[i].halo) {
        m.operand = narrowed(i);
        halos.push_back(m);
        if (least == 0 || args[i].width < least) least = args[i].width;
      }
    if constexpr (requires { Op::halo; })
      if (least < Op::halo) return in.fail(fault::neighbour_too_far, Op::name, where, {}, {}, Op::halo, least);
    const indexed_span<const dim_map> all(halos.data(), halos.size());
    if constexpr (sizeof...(X) > max_arity) {
      return in.fail(fault::operand_count, Op::name, where, {}, {}, max_arity, sizeof...(X));
    } else if constexpr (requires { typename Result::sharding_type; }) {
      return detail::recorded_local_call(in, shard_operation<Op>, values, element_of<typename Result::element_type>,
                                         typename Result::sharding_type{}, where, all);
    } else if constexpr (std::is_void_v<Result>) {
      return detail::recorded_call(in, shard_operation<Op>, values, Whole::dims, in.at(values[0]).type, where, all);
    } else {
      return detail::recorded_call(in, shard_operation<Op>, values, Whole::dims,
                                   detail::type_named(in, element_of<typename Result::element_type>, Result::dims,
                                                      where),
                                   where, all);
    }
  }
};
template <class Op, class Whole, class Result, class... X>
constexpr auto shards_to(source where, const X&... x) {
  if constexpr ((Statement<X> || ...)) return make_expression(shard_call<Op, Whole, Result>{}, x...);
  else return shard_call<Op, Whole, Result>{where}(x...);
}

} // namespace detail

/// Your own kernel on shards: `call<cumulative>(whole(time), x)`. `Op` is a struct with a static constexpr `name` and a
/// call operator that receives a local_context, the shards of the operands, and the shard of the result, which it
/// fills. The result has the type of the first operand, or that of `result<float>(batch)` after `whole`. Dims in
/// `whole`, and dims of operands that the result lacks, are not sharded. The planner may shard the others, in the same
/// way in all operands. A static `reference` on doubles allows simulation. For a derivative, wrap the call in
/// custom_vjp.
template <class Op, class... W, class... X>
  requires(sizeof...(X) > 0)
constexpr auto call(const whole<W...>& w, const X&... x) {
  return detail::shards_to<Op, whole<W...>, void>(w.where, x...);
}
template <class Op, class... W, class T, class... D, class... X>
constexpr auto call(const whole<W...>& w, const result_dims<T, D...>&, const X&... x) {
  return detail::shards_to<Op, whole<W...>, result_dims<T, D...>>(w.where, x...);
}

/// Manual mode, as shard_map in JAX: `local<Op>(result<float>(mesh(batch / data)), reshard(x, mesh(batch / data)), w)`.
/// Operands arrive in the layouts to which they are resharded, otherwise unsharded. The kernel writes the shard of the
/// result on every device, in the given layout, which may be unreduced. The kernel may communicate through its context;
/// all devices make the same calls. A static `bytes` gives the price of that communication.
template <class Op, class T, class Sharding, class... X>
constexpr auto local(const result_layout<T, Sharding>& r, const X&... x) {
  return detail::shards_to<Op, whole<>, result_layout<T, Sharding>>(r.where, x...);
}

}} // namespace cleave::v0
