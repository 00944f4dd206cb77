// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/values.hpp>

#include <concepts>
#include <utility>

namespace cleave { inline namespace v0 { namespace nn {

/// The scale and the bias of a normalization, each a tensor of the normalized dim.
template <class Scale, class Bias = Scale>
struct norm_weights {
  Scale scale;
  Bias bias;
};
template <class S, class B>
norm_weights(S, B) -> norm_weights<S, B>;

/// x with mean 0 and variance 1 along a dim, then scaled and shifted (Ba, Kiros and Hinton 2016). Any layout. `w` are
/// `norm_weights`, or a scale alone. Communication: along a sharded dim, two sums for each slice are reduced.
template <class W>
constexpr value layer_norm(operand x, const W& w, dim_ref over, operand epsilon = 1e-5) {
  if constexpr (std::convertible_to<const W&, operand>) return cleave::layer_norm(x, over, w, 0, epsilon);
  else return cleave::layer_norm(x, over, w.scale, w.bias, epsilon);
}
CLEAVE_LIFT(layer_norm)

/// x with mean square 1 along a dim, then scaled (Zhang and Sennrich 2019); of 16 bits in float, rounded once. Any
/// layout. Communication: along a sharded dim, one sum for each slice is reduced.
constexpr value rms_norm(operand x, operand scale, dim_ref over, operand epsilon = 1e-6) {
  const called_at user(x, "rms_norm");
  const value wide = widened(x);
  const operand by = scale.is_literal ? scale : operand(widened(scale));
  return in_type(wide * rsqrt(mean(wide * wide, over) + epsilon) * by, element_in(x.from));
}
CLEAVE_LIFT(rms_norm)

namespace detail {
/// (x - mean) / sqrt(variance + epsilon) * scale + bias; of 16 bits in float, rounded once. `w` are `norm_weights`, or
/// a scale alone.
template <class W>
constexpr value normalized(operand x, const value& mean, const value& variance, const W& w, operand epsilon) {
  const value normal = (widened(x) - widened(mean)) * rsqrt(widened(variance) + epsilon);
  if constexpr (std::convertible_to<const W&, operand>) return in_type(normal * widened(w), element_in(x.from));
  else return in_type(normal * widened(w.scale) + widened(w.bias), element_in(x.from));
}
} // namespace detail

/// The mean and the variance of each channel over the training so far: the state of `batch_norm`. A mean starts as 0,
/// a variance as 1.
template <class Mean, class Variance = Mean>
struct running_moments {
  Mean mean;
  Variance variance;
};
template <class M, class V>
running_moments(M, V) -> running_moments<M, V>;

/// Options of `batch_norm`.
struct batch_norm_options {
  double epsilon = 1e-5;
  /// The weight of the moments of a batch in the running ones (PyTorch's momentum).
  double momentum = 0.1;
};

/// x with mean 0 and variance 1 over the dims, those of the batch and of space, then scaled and shifted for each
/// channel (Ioffe and Szegedy 2015), and the running moments after it. As in PyTorch, the running variance is that of a
/// sample (n - 1). They have no gradient. Communication: if a dim is sharded, two sums for each channel are reduced:
/// the moments are those of the whole batch, whatever the layout (PyTorch's SyncBatchNorm).
template <class W, class Mean, class Variance, std::convertible_to<dim_ref>... D>
  requires(sizeof...(D) > 0)
constexpr std::pair<value, running_moments<value>> batch_norm(operand x, const W& w,
                                                              const running_moments<Mean, Variance>& so_far,
                                                              const batch_norm_options& o, const D&... over) {
  const called_at user(x, "batch_norm");
  const auto [mean, variance] = moments(widened(x), over...);
  if (!variance.ok()) return {variance, {variance, variance}};
  const value n = cast(count<double>(x, over...), element_in(variance));
  const auto next = [&](operand before, const value& now) {
    const value old = before.from;
    return in_type(widened(old) * (1 - o.momentum) + stop_gradient(now) * o.momentum, element_in(old));
  };
  return {detail::normalized(x, mean, variance, w, o.epsilon),
          {next(so_far.mean, mean), next(so_far.variance, variance * (n / maximum(n - 1, 1)))}};
}
/// The same after the training, with the running moments. No communication.
template <class W, class Mean, class Variance>
constexpr value batch_norm(operand x, const W& w, const running_moments<Mean, Variance>& so_far,
                           const batch_norm_options& o) {
  const called_at user(x, "batch_norm");
  return detail::normalized(x, operand(so_far.mean).from, operand(so_far.variance).from, w, o.epsilon);
}

/// x with mean 0 and variance 1 over the dims of space, for each channel and each element of the batch, then scaled and
/// shifted for each channel (Ulyanov, Vedaldi and Lempitsky 2016). Communication: if such a dim is sharded, two sums
/// are reduced.
template <class W, std::convertible_to<dim_ref>... D>
constexpr value instance_norm(operand x, const W& w, operand epsilon, const D&... over) {
  const called_at user(x, "instance_norm");
  const auto [mean, variance] = moments(widened(x), over...);
  return detail::normalized(x, mean, variance, w, epsilon);
}
CLEAVE_LIFT(instance_norm)
/// The same over groups of channels and the dims of space (Wu and He 2018). The fixed extent of `group` is the number
/// of groups, which divides the channels. Communication: if `channel` is sharded, that of `split`, and as
/// `instance_norm`.
template <class W, std::convertible_to<dim_ref>... D>
constexpr value group_norm(operand x, const W& w, operand epsilon, dim_ref channel, dim_ref group, const D&... over) {
  const called_at user(x, "group_norm");
  const dim_ref within = derived_dim<"chan">(x, "group_norm", channel, group);
  if (within.name.empty()) return {x.from.in, no_node};
  const value groups = split(x, channel, group, within);
  const auto [mean, variance] = moments(widened(groups), within, over...);
  const value normal = (widened(groups) - mean) * rsqrt(variance + epsilon);
  const value whole = merge(normal, group, within, channel);
  if constexpr (std::convertible_to<const W&, operand>) return in_type(whole * widened(w), element_in(x.from));
  else return in_type(whole * widened(w.scale) + widened(w.bias), element_in(x.from));
}
CLEAVE_LIFT(group_norm)

}}} // namespace cleave::v0::nn
