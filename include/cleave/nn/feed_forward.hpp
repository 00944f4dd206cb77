// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/mathematics.hpp>
#include <cleave/expr/values.hpp>

#include <functional>

namespace cleave { inline namespace v0 { namespace nn {

/// The kernel and the bias of a linear map.
template <class Kernel, class Bias>
struct linear_weights {
  Kernel kernel;
  Bias bias;
};
template <class K, class B>
linear_weights(K, B) -> linear_weights<K, B>;

/// x times the kernel, contracted over the dims, plus the bias. Communication as for `dot`.
template <class Kernel, class Bias, std::convertible_to<dim_ref>... D>
constexpr value linear(operand x, const linear_weights<Kernel, Bias>& w, const D&... over) {
  const called_at user(x, "linear");
  return dot(x, w.kernel, over...) + w.bias;
}
CLEAVE_LIFT(linear)

/// x * sigmoid(x) (swish; Elfwing, Uchibe and Doya 2018).
constexpr value silu(operand x) {
  const called_at user(x, "silu");
  const value wide = widened(x);
  return in_type(wide * sigmoid(wide), element_in(x.from));
}
CLEAVE_LIFT(silu)
/// x times the cumulative normal distribution at x. `cleave::gelu` approximates it by tanh.
constexpr value gelu_exact(operand x) {
  const called_at user(x, "gelu_exact");
  const value wide = widened(x);
  return in_type(wide * erfc(wide * -0.70710678118654752) * 0.5, element_in(x.from));
}
CLEAVE_LIFT(gelu_exact)

/// Two linear maps with an activation between them: `up` maps dim `embed` to dim `hidden`, `down` maps back. `pin`
/// constrains the hidden values. If they are sharded along `hidden` as the kernels are, the first product moves nothing
/// and the second leaves one partial sum (Shoeybi et al. 2019).
template <class Up, class Down, class Activate, class Pin = std::identity>
constexpr value feed_forward(operand x, const Up& up, const Down& down, dim_ref embed, dim_ref hidden,
                             const Activate& activate, const Pin& pin = {}) {
  const called_at user(x, "feed_forward");
  return linear(activate(pin(linear(x, up, embed))), down, hidden);
}
CLEAVE_LIFT(feed_forward)

/// activate(x gate) * (x up), then times `down`, without biases (Shazeer 2020; with silu: SwiGLU). Otherwise as
/// `feed_forward`.
template <class Activate, class Pin = std::identity>
constexpr value gated_feed_forward(operand x, operand gate, operand up, operand down, dim_ref embed, dim_ref hidden,
                                   const Activate& activate, const Pin& pin = {}) {
  const called_at user(x, "gated_feed_forward");
  return dot(activate(pin(dot(x, gate, embed))) * pin(dot(x, up, embed)), down, hidden);
}
CLEAVE_LIFT(gated_feed_forward)

}}} // namespace cleave::v0::nn
