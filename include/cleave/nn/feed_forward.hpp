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

namespace detail {
/// A kernel, or a kernel with a bias.
template <class W>
concept LinearMap = std::convertible_to<const W&, operand> || requires(const W& w) { operand(w.bias); };
template <LinearMap W, class... D>
constexpr value projected(const value& x, const W& w, const D&... over) {
  if constexpr (requires { w.bias; }) return linear(x, w, over...);
  else return dot(x, w, over...);
}
} // namespace detail

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

/// x * sigmoid(1.702 x), an approximation of gelu (Hendrycks and Gimpel 2016).
constexpr value quick_gelu(operand x) {
  const called_at user(x, "quick_gelu");
  const value wide = widened(x);
  return in_type(wide * sigmoid(wide * 1.702), element_in(x.from));
}
CLEAVE_LIFT(quick_gelu)
/// The square of relu (So et al. 2021).
constexpr value squared_relu(operand x) {
  const called_at user(x, "squared_relu");
  const value kept = relu(x);
  return kept * kept;
}
CLEAVE_LIFT(squared_relu)

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

/// activate(x gate) * (x up), then times `down` (Shazeer 2020): with sigmoid GLU, with relu ReGLU, with gelu GEGLU,
/// with silu SwiGLU. Each map is a tensor or `linear_weights`. Otherwise as `feed_forward`.
template <detail::LinearMap Gate, detail::LinearMap Up, detail::LinearMap Down, class Activate,
          class Pin = std::identity>
constexpr value gated_feed_forward(operand x, const Gate& gate, const Up& up, const Down& down, dim_ref embed,
                                   dim_ref hidden, const Activate& activate, const Pin& pin = {}) {
  const called_at user(x, "gated_feed_forward");
  const value opened = activate(pin(detail::projected(x.from, gate, embed)));
  return detail::projected(opened * pin(detail::projected(x.from, up, embed)), down, hidden);
}
CLEAVE_LIFT(gated_feed_forward)

}}} // namespace cleave::v0::nn
