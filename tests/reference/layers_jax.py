#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes layers_jax.hpp beside it: what JAX computes in float64 for layers of published models, on arguments that are sines.

    pip install jax
    layers_jax.py
"""
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy

jax.config.update("jax_enable_x64", True)


def argument(k: int, *shape: int) -> jax.Array:
    """Element i of argument k is sin(0.7 i + 1.1 k), as in tests/unit/layer_harness.hpp."""
    return jnp.asarray(numpy.sin(0.7 * numpy.arange(math.prod(shape)) + 1.1 * k).reshape(shape))


def attended(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    """Attention in float64; that of jax.nn has a softmax in float32."""
    scores = jnp.einsum("pnh,snh->nps", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("nps,snh->pnh", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1), v)


def slopes(heads: int) -> jax.Array:
    """Those of ALiBi, as its authors compute them."""
    def powers(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    if math.log2(heads).is_integer():
        return jnp.asarray(powers(heads))
    nearest = 2 ** math.floor(math.log2(heads))
    return jnp.asarray(powers(nearest) + powers(2 * nearest)[0::2][:heads - nearest])


def scored() -> jax.Array:
    """q [position, heads, head], k and v [source, heads, head]: scale, soft cap, ALiBi, and a window of 3 that is causal."""
    q, k, v = argument(0, 6, 3, 4), argument(1, 6, 3, 4), argument(2, 6, 3, 4)
    scores = 2 * jnp.tanh(0.3 * jnp.einsum("pnh,snh->nps", q, k) / 2)
    at, of = jnp.arange(6)[:, None], jnp.arange(6)[None, :]
    scores = scores + slopes(3)[:, None, None] * (of - at)
    weights = jax.nn.softmax(jnp.where((at >= of) & (at - of < 3), scores, -jnp.inf), -1)
    return jnp.einsum("nps,snh->pnh", weights, v)


def turned(x: jax.Array, at: jax.Array, rates: jax.Array, neighbours: bool) -> jax.Array:
    """x [position, heads, head] times the complex numbers of its angles."""
    if neighbours:
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        first, second = pairs[..., 0], pairs[..., 1]
    else:
        first, second = jnp.split(x, 2, -1)
    made = (first + 1j * second) * jnp.exp(1j * at[:, None, None] * rates)
    if neighbours:
        return jnp.stack([made.real, made.imag], -1).reshape(x.shape)
    return jnp.concatenate([made.real, made.imag], -1)


def rates(head: int, base: float) -> jax.Array:
    return base ** (-jnp.arange(0, head, 2) / head)


def llama3(rate: jax.Array, factor: float, low: float, high: float, context: float) -> jax.Array:
    """The scaled rates of Llama 3.1, by cases as Meta publishes them."""
    made = []
    for r in rate.tolist():
        wave = 2 * math.pi / r
        if wave < context / high:
            made.append(r)
        elif wave > context / low:
            made.append(r / factor)
        else:
            smooth = (context / wave - low) / (high - low)
            made.append((1 - smooth) * r / factor + smooth * r)
    return jnp.asarray(made)


def rotated_pairs() -> jax.Array:
    return turned(argument(0, 5, 2, 8), jnp.arange(5), llama3(rates(8, 100), 4, 1, 4, 60), True)


def rotated_halves() -> jax.Array:
    return turned(argument(0, 5, 2, 8), jnp.arange(5) / 2.5, rates(8, 100), False)


def crossed() -> jax.Array:
    """x [position, embed], memory [source, embed], maps with biases; the last of 5 sources is padding."""
    x, memory = argument(0, 4, 3), argument(1, 5, 3)
    maps = [argument(k, 3, 2, 2) for k in (2, 3, 4)]
    biases = [argument(k, 2, 2) for k in (6, 7, 8)]
    q, k, v = (jnp.einsum("pe,enh->pnh", of, m) + b for of, m, b in zip((x, memory, memory), maps, biases))
    mixed = attended(q, k, v, jnp.arange(5)[None, :] < 4)
    return jnp.einsum("pnh,nhe->pe", mixed, argument(5, 2, 2, 3)) + argument(9, 3)


def cached() -> jax.Array:
    """x [position, embed] at 3 and 4, keys and values [source, heads, head] with room for 6; the sequence begins at 1."""
    x, keys, values = argument(0, 2, 3), argument(5, 6, 2, 2), argument(6, 6, 2, 2)
    q, k, v = (jnp.einsum("pe,enh->pnh", x, argument(m, 3, 2, 2)) for m in (1, 2, 3))
    at = jnp.arange(3, 5)
    q, k = (turned(t, at - 1, rates(2, 100), False) for t in (q, k))
    keys, values = keys.at[3:5].set(k), values.at[3:5].set(v)
    of = jnp.arange(6)[None, :]
    mixed = attended(q, keys, values, (at[:, None] >= of) & (of >= 1))
    return jnp.einsum("pnh,nhe->pe", mixed, argument(4, 2, 2, 3))


def gated() -> jax.Array:
    """x [batch, embed], and gate, up and down with biases."""
    x = argument(0, 3, 4)
    gate, up = (x @ argument(k, 4, 5) + argument(k + 1, 5) for k in (1, 3))
    return (jax.nn.gelu(gate, approximate=False) * up) @ argument(5, 5, 4) + argument(6, 4)


def activated() -> jax.Array:
    x = argument(0, 7)
    return x * jax.nn.sigmoid(1.702 * x) + jax.nn.relu(x) ** 2


def normed() -> jax.Array:
    """x [batch, embed], without a bias and then with one."""
    x, scale, bias = argument(0, 3, 4), argument(1, 4), argument(2, 4)
    once = jax.nn.standardize(x, axis=-1, epsilon=1e-3) * scale
    return jax.nn.standardize(once, axis=-1, epsilon=1e-5) * scale + bias


def convolved(x: jax.Array, kernel: jax.Array, strides: tuple, padding: list, dilation: tuple, groups: int = 1) -> jax.Array:
    """x [batch, space..., channel], kernel [space..., channel / groups, features]."""
    space = "HWD"[:x.ndim - 2]
    numbers = jax.lax.conv_dimension_numbers(x.shape, kernel.shape, (f"N{space}C", f"{space}IO", f"N{space}C"))
    return jax.lax.conv_general_dilated(x, kernel, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers,
                                        feature_group_count=groups)


def convolved_line() -> jax.Array:
    """x [batch, a, in], kernel [ka, in, out], bias [out]: stride 2, dilation 2, padding 1 and 2."""
    return convolved(argument(0, 2, 9, 3), argument(1, 3, 3, 2), (2,), [(1, 2)], (2,)) + argument(2, 2)


def convolved_plane() -> jax.Array:
    """x [batch, a, b, in], kernel [ka, kb, in, out]: a strided, b of the same extent."""
    return convolved(argument(0, 2, 7, 5, 2), argument(1, 3, 3, 2, 3), (2, 1), [(1, 1), (1, 1)], (1, 1))


def convolved_space() -> jax.Array:
    """x [batch, a, b, c, in], kernel [ka, kb, kc, in, out]."""
    return convolved(argument(0, 1, 4, 3, 5, 2), argument(1, 3, 3, 2, 2, 2), (1, 1, 1), [(1, 1), (1, 1), (0, 0)], (1, 1, 1))


def depthwise() -> jax.Array:
    """x [batch, a, b, in], kernel [ka, kb, in, multiple], bias [in, multiple]: [batch, a, b, in, multiple]."""
    kernel = argument(1, 3, 3, 3, 2)
    made = convolved(argument(0, 2, 5, 4, 3), kernel.reshape(3, 3, 1, 6), (1, 1), [(1, 1), (1, 1)], (1, 1), 3)
    return made.reshape(2, 5, 4, 3, 2) + argument(2, 3, 2)


def grouped() -> jax.Array:
    """x [batch, a, group, in], kernel [ka, group, in, out]: [batch, a, group, out]."""
    kernel = jnp.einsum("kgio->kigo", argument(1, 3, 2, 2, 3)).reshape(3, 2, 6)
    return convolved(argument(0, 2, 6, 2, 2).reshape(2, 6, 4), kernel, (1,), [(1, 1)], (1,), 2).reshape(2, 6, 2, 3)


def transposed() -> jax.Array:
    """x [batch, a, b, in], kernel [ka, kb, in, out], bias [out]: the transpose of a convolution of stride 2 along a."""
    x, kernel = argument(0, 2, 4, 3, 2), argument(1, 4, 3, 2, 3)
    forward = lambda y: convolved(y, jnp.swapaxes(kernel, 2, 3), (2, 1), [(1, 1), (1, 1)], (1, 1))
    return jax.linear_transpose(forward, jnp.zeros((2, 8, 3, 3)))(x)[0] + argument(2, 3)


def pooled_by_maximum() -> jax.Array:
    """x [batch, a, b]: windows of 3 by 2, stride 2 by 2, padding 1 by 0; all elements are negative."""
    x = argument(0, 2, 7, 4) - 2
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 2), (1, 2, 2), [(0, 0), (1, 1), (0, 0)])


def pooled_by_mean() -> jax.Array:
    """The same windows: with the zeros beyond the ends, and then without."""
    x = argument(0, 2, 7, 4)
    add = lambda y: jax.lax.reduce_window(y, 0.0, jax.lax.add, (1, 3, 2), (1, 2, 2), [(0, 0), (1, 1), (0, 0)])
    return jnp.stack([add(x) / 6, add(x) / add(jnp.ones_like(x))])


def of_a_batch() -> jax.Array:
    """x [batch, a, channel]."""
    x, scale, bias = argument(0, 3, 4, 2), argument(1, 2), argument(2, 2)
    return (x - x.mean((0, 1))) / jnp.sqrt(x.var((0, 1)) + 1e-3) * scale + bias


def after_a_batch() -> jax.Array:
    """The same with the running moments after it."""
    x, scale, bias, mean, variance = argument(0, 3, 4, 2), argument(1, 2), argument(2, 2), argument(3, 2), 2 + argument(4, 2)
    mean, variance = 0.8 * mean + 0.2 * x.mean((0, 1)), 0.8 * variance + 0.2 * x.var((0, 1), ddof=1)
    return (x - mean) / jnp.sqrt(variance + 1e-3) * scale + bias


def of_an_instance() -> jax.Array:
    x, scale, bias = argument(0, 3, 4, 2), argument(1, 2), argument(2, 2)
    return (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-3) * scale + bias


def of_groups() -> jax.Array:
    """x [batch, a, channel] in 2 groups of channels."""
    x, scale, bias = argument(0, 3, 4, 6), argument(1, 6), argument(2, 6)
    y = x.reshape(3, 4, 2, 3)
    y = (y - y.mean((1, 3), keepdims=True)) / jnp.sqrt(y.var((1, 3), keepdims=True) + 1e-3)
    return y.reshape(3, 4, 6) * scale + bias


def cut_into_patches() -> jax.Array:
    """x [batch, a, b, channel], kernel [ka, kb, channel, embed], bias [embed], and waves for the 6 positions."""
    x = argument(0, 2, 4, 6, 2)
    made = convolved(x, argument(1, 2, 2, 2, 4), (2, 2), [(0, 0), (0, 0)], (1, 1)).reshape(2, 6, 4) + argument(2, 4)
    angles = jnp.arange(6)[:, None] * 100 ** (-jnp.arange(0, 4, 2) / 4)
    return made + jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(6, 4)


def conformer() -> jax.Array:
    """Two layers in each of two stages on x [microbatch, batch, position, embed], and the gradients of the sum of sines
    for x and the depthwise kernel."""
    norm = [(2, 2, 4)] * 2
    half = [*norm, (2, 2, 4, 6), (2, 2, 6, 4)]
    shapes = [*half, *half, *norm, *norm, *norm, *[(2, 2, 4, 2, 2)] * 3, (2, 2, 2, 2, 4), *[(2, 2, 4, 3)] * 2, (2, 2, 5, 3),
              *[(2, 2, 3)] * 2, (2, 2, 3, 4)]
    weights = [argument(1 + k, *shape) for k, shape in enumerate(shapes)]

    def normed(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
        return jax.nn.standardize(x, axis=-1, epsilon=1e-5) * scale + bias

    def with_half(x: jax.Array, w: list) -> jax.Array:
        return x + 0.5 * jax.nn.silu(normed(x, *w[:2]) @ w[2]) @ w[3]

    def layer(x: jax.Array, w: list) -> jax.Array:
        """x [position, embed]"""
        x = with_half(x, w[:4])
        q, k, v = (jnp.einsum("pe,enh->pnh", normed(x, *w[8:10]), m) for m in w[14:17])
        x = x + jnp.einsum("pnh,nhe->pe", attended(q, k, v, jnp.ones((4, 4), bool)), w[17])
        a = normed(x, *w[10:12])
        mixed = convolved(((a @ w[19]) * jax.nn.sigmoid(a @ w[18]))[None], w[20][:, None, :], (1,), [(2, 2)], (1,), 3)[0]
        x = x + jax.nn.silu(normed(mixed, *w[21:23])) @ w[23]
        return normed(with_half(x, w[4:8]), *w[12:14])

    def encoded(x: jax.Array, depthwise: jax.Array) -> jax.Array:
        for stage in range(2):
            for number in range(2):
                w = [depthwise[number, stage] if k == 20 else v[number, stage] for k, v in enumerate(weights)]
                x = jax.vmap(jax.vmap(lambda one: layer(one, w)))(x)
        return x

    x = argument(0, 3, 1, 4, 4)
    slopes = jax.grad(lambda *given: jnp.sin(encoded(*given)).sum(), (0, 1))(x, weights[20])
    return jnp.concatenate([values.ravel() for values in (encoded(x, weights[20]), *slopes)])


def main() -> None:
    lines = ["// SPDX-FileCopyrightText: The Cleave authors", "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception", "//",
             "// Written by layers_jax.py.", "#pragma once", "", "#include <vector>", "", "namespace recorded {", ""]
    for f in (scored, rotated_pairs, rotated_halves, crossed, cached, gated, activated, normed, convolved_line, convolved_plane, convolved_space,
              depthwise, grouped, transposed, pooled_by_maximum, pooled_by_mean, of_a_batch, after_a_batch, of_an_instance,
              of_groups, cut_into_patches, conformer):
        numbers = [repr(float(x)) for x in numpy.asarray(f()).ravel()]
        lines.append(f"inline const std::vector<double> {f.__name__}{{")
        for i in range(0, len(numbers), 4):
            lines.append("    " + ", ".join(numbers[i:i + 4]) + ("," if i + 4 < len(numbers) else "};"))
    lines += ["", "} // namespace recorded", ""]
    pathlib.Path(__file__).with_suffix(".hpp").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
