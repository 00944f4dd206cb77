// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/nn/feed_forward.hpp>

#include <concepts>
#include <initializer_list>
#include <limits>

// Convolutions and pooling over windows of one to three dims. A window says how places of the result see places of x:
// result i sees stride * i + dilation * k - low. Kernels have the dims `at` of the windows. Sharded dims of space
// exchange the elements that windows see beyond a block, all in one exchange; a sharded batch moves nothing.

namespace cleave { inline namespace v0 { namespace nn {

/// A window of odd extent that is centred at its place, with zeros beyond the ends: of stride 1 the extent stays the
/// same, of stride s it is divided by s, rounded up. The extent of `at` is fixed.
constexpr window centred(dim_ref from, dim_ref to, dim_ref at, std::int64_t stride = 1, std::int64_t dilation = 1) {
  const std::int64_t reach = dilation * (at.extent - 1) / 2;
  return {from, to, at, stride, dilation, reach, reach};
}
constexpr window centred(dim_ref along, dim_ref at) { return centred(along, along, at); }

namespace detail {
template <class W>
concept Window = std::convertible_to<const W&, window>;

/// A kernel, or a kernel with a bias, times the elements that the windows see.
template <class W, class... D>
constexpr value convolved(const value& seen, const W& w, const D&... over) {
  if constexpr (requires { w.bias; }) return dot(seen, w.kernel, over...) + w.bias;
  else return dot(seen, w, over...);
}
/// Whether an element that a window sees is within the ends.
constexpr value within(operand x, const window& w) {
  const recorder::outer_products any_dims(*x.from.in);
  const value place = iota<std::int64_t>(x, w.to) * static_cast<double>(w.stride) +
                      iota<std::int64_t>(x, w.at) * static_cast<double>(w.dilation) - static_cast<double>(w.low);
  return (place >= 0) & (place < count<std::int64_t>(x, w.from));
}
/// Whether windows see zeros beyond the ends.
constexpr bool sees_zeros(const window& w) { return w.outside == border::zero && (w.low > 0 || w.high > 0); }
/// Dims as one, row by row.
constexpr value merged(const value& x, dim_ref whole, dim_ref only) { return rename(x, only, whole); }
constexpr value merged(const value& x, dim_ref whole, dim_ref major, dim_ref minor) {
  return merge(x, major, minor, whole);
}
constexpr value merged(const value& x, dim_ref whole, dim_ref first, dim_ref second, dim_ref third) {
  const dim_ref both = derived_dim<"join">(x, "patch_embedding", first, second);
  return both.name.empty() ? value{x.in, no_node} : merge(merge(x, first, second, both), both, third, whole);
}
} // namespace detail

/// A convolution over one to three dims: x [channel, from..., ...] with the kernel [at..., channel, ...] gives
/// [to..., ...] and the other dims of the kernel, its channels. `w` is a kernel or `linear_weights`. In a grouped
/// convolution, x and the kernel have a dim of groups: `convolution(split(x, channel, group, in), w, in, ...)`.
/// Products read windows from memory (im2col). Communication: that of the windows, and of a product over the channel.
template <detail::LinearMap W, detail::Window... Along>
constexpr value convolution(operand x, const W& w, dim_ref channel, const Along&... along) {
  const called_at user(x, "convolution");
  return detail::convolved(windows(x, window(along)...), w, window(along).at..., channel);
}
CLEAVE_LIFT(convolution)

/// A convolution of each channel by itself: the kernel is [at..., channel], or [at..., channel, multiple].
/// Communication: that of the windows.
template <detail::LinearMap W, detail::Window... Along>
constexpr value depthwise_convolution(operand x, const W& w, const Along&... along) {
  const called_at user(x, "depthwise_convolution");
  return detail::convolved(windows(x, window(along)...), w, window(along).at...);
}
CLEAVE_LIFT(depthwise_convolution)

/// The transpose of a convolution: x [to..., channel, ...] with the kernel [at..., channel, ...] gives [from..., ...].
/// The windows are those of the convolution from the result to x, so x is its smaller side. Windows that overlap
/// are added: no zeros are multiplied. The extent of `from` is stride * (extent of `to` - 1) + dilation *
/// (extent of `at` - 1) + 1 - low - high (PyTorch's, with padding low and high, which may differ).
template <detail::LinearMap W, detail::Window... Along>
constexpr value transposed_convolution(operand x, const W& w, dim_ref channel, const Along&... along) {
  const called_at user(x, "transposed_convolution");
  const value parts = [&] {
    if constexpr (requires { w.bias; }) return dot(x, w.kernel, channel);
    else return dot(x, w, channel);
  }();
  if (!parts.ok()) return parts;
  recorder& in = *parts.in;
  tensor_type made;
  made.element = in.at(parts).type.element;
  for (const window& one : {window(along)...}) {
    const std::int64_t kernel = one.at.extent;
    if (kernel == dynamic) return in.fail(fault::window_open, "transposed_convolution", x.where, one.at.name);
    const std::int64_t more = one.dilation * (kernel - 1) + 1 - one.stride - one.low - one.high;
    if (one.from.name != one.to.name &&
        !define_extent(parts, "transposed_convolution", one.from, more, {{one.to, one.stride}}))
      return {&in, no_node};
  }
  const tensor_type has = in.at(parts).type;
  for (int i = 0; i < has.rank; ++i) {
    dim_id d = has[i];
    bool kept = true;
    for (const window& one : {window(along)...}) {
      if (d == in.made().find_dim(one.at.name)) kept = false;
      else if (d == in.made().find_dim(one.to.name)) d = static_cast<dim_id>(in.made().find_dim(one.from.name));
    }
    if (kept) made.append(d);
  }
  const value zeros = in.broadcast(in.constant(0, made.element, x.where), made, x.where);
  const value sums = vjp([&](const value& v) { return windows(v, window(along)...); }, zeros).second(parts);
  if constexpr (requires { w.bias; }) return sums + w.bias;
  else return sums;
}
CLEAVE_LIFT(transposed_convolution)

/// The largest element that each window sees. Zeros beyond the ends do not count. Communication: that of the windows.
template <detail::Window... Along>
constexpr value max_pool(operand x, const Along&... along) {
  const called_at user(x, "max_pool");
  value seen = windows(x, window(along)...);
  const auto leave_out = [&](const window& w) {
    if (!seen.ok() || !detail::sees_zeros(w)) return;
    const element type = element_in(seen);
    seen = select(detail::within(x, w), seen, seen.in->constant(lowest_of(type), type, x.where));
  };
  (leave_out(along), ...);
  return max(seen, window(along).at...);
}
CLEAVE_LIFT(max_pool)
/// The mean of the elements that each window sees. Zeros beyond the ends count (PyTorch's count_include_pad).
/// Communication: that of the windows.
template <detail::Window... Along>
constexpr value average_pool(operand x, const Along&... along) {
  const called_at user(x, "average_pool");
  return mean(windows(x, window(along)...), window(along).at...);
}
CLEAVE_LIFT(average_pool)
/// The same where zeros beyond the ends do not count.
template <detail::Window... Along>
constexpr value average_pool_without_padding(operand x, const Along&... along) {
  const called_at user(x, "average_pool_without_padding");
  value total = sum(widened(windows(x, window(along)...)), window(along).at...);
  const auto divide = [&](const window& w) {
    if (!total.ok()) return;
    const value inside = detail::sees_zeros(w) ? sum(cast<float>(detail::within(x, w)), w.at) : count(total, w.at);
    total = total / in_type(inside, element_in(total));
  };
  (divide(along), ...);
  return in_type(total, element_in(x.from));
}
CLEAVE_LIFT(average_pool_without_padding)

/// One of the dims that `patch_embedding` cuts: `from` becomes `to` patches of `at` elements.
struct patch {
  dim_ref from, to, at;
};
/// Patches of one to three dims that do not overlap, each mapped to a vector (Dosovitskiy et al. 2021): x [channel,
/// from..., ...] with the kernel [at..., channel, embed] gives [position, embed, ...], the patches row by row as
/// `position`. Elements at the ends that fill no patch are left out. Communication: none if no dim of space is sharded.
template <detail::LinearMap W, std::same_as<patch>... Patches>
  requires(sizeof...(Patches) >= 1 && sizeof...(Patches) <= 3)
constexpr value patch_embedding(operand x, const W& w, dim_ref channel, dim_ref position, const Patches&... along) {
  const called_at user(x, "patch_embedding");
  const value seen = windows(x, window{along.from, along.to, along.at, along.at.extent}...);
  return detail::merged(detail::convolved(seen, w, along.at..., channel), position, along.to...);
}
CLEAVE_LIFT(patch_embedding)

/// Waves as position embeddings (Vaswani et al. 2017): elements 2i and 2i + 1 along `embed` are the sine and the cosine
/// of `at` * base^(-2i / extent). `at` are integers with any dims, such as `iota(x, position)`; the result is in the
/// type of x. An embedding that is learned is a table: `x + nn::embedding(table, iota(x, position), room)`, or `x +
/// table` if the table has as many positions. No communication.
constexpr value sinusoidal(operand x, operand at, dim_ref embed, double base = 10000) {
  const called_at user(x, "sinusoidal");
  if (!x.from.ok() || !at.from.ok()) return x.from.ok() ? at.from : x.from;
  recorder& in = *x.from.in;
  const element type = element_in(x.from), wide = accumulator_of(type);
  const value index = iota(x, embed), pair = index / 2;
  const value rate = pow(base, cast(pair, wide) * -2.0 / cast(count(x, embed), wide));
  if (!rate.ok()) return rate;
  tensor_type angles = in.at(at.from).type;
  angles.append(in.made().find_dim(embed.name));
  const value angle = in.broadcast(cast(at, wide), angles, x.where) * rate;
  return in_type(select(index == pair * 2, sin(angle), cos(angle)), type);
}
CLEAVE_LIFT(sinusoidal)

}}} // namespace cleave::v0::nn
