// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/values.hpp>

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

/// x with mean square 1 along a dim, then scaled (Zhang and Sennrich 2019); of 16 bits in float, rounded once. Any
/// layout. Communication: along a sharded dim, one sum for each slice is reduced.
constexpr value rms_norm(operand x, operand scale, dim_ref over, operand epsilon = 1e-6) {
  const called_at user(x, "rms_norm");
  const value wide = widened(x);
  const operand by = scale.is_literal ? scale : operand(widened(scale));
  return in_type(wide * rsqrt(mean(wide * wide, over) + epsilon) * by, element_in(x.from));
}
CLEAVE_LIFT(rms_norm)

}}} // namespace cleave::v0::nn
