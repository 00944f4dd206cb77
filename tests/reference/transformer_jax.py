# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small decoder with JAX in float32 and writes what cleave_transformer_reference compares with: configuration, initial
parameters, words, losses, first gradient, final parameters. Needs jax, numpy and h5py; tests do not run it.

The file transformer-odd.h5 is: transformer_jax.py transformer-odd.h5 --vocab 131 --heads 3 --d_head 8 --d_model 30 --d_ff 61 --layers 3 --seq 17
"""
import argparse

import h5py
import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
for name, value in dict(batch=4, d_ff=64, d_head=8, d_model=32, heads=4, layers=2, seq=16, steps=20, vocab=64, seed=1).items():
    parser.add_argument("--" + name, type=int, default=value)
c = parser.parse_args()
rates = dict(beta1=0.9, beta2=0.999, epsilon=1e-8, learning_rate=1e-3, layer_norm_epsilon=1e-5)

random = np.random.default_rng(c.seed)


def normal(*shape):
    return (0.05 * random.standard_normal(shape)).astype(np.float32)


def norm_weights():
    return dict(scale=np.ones(c.d_model, np.float32) + normal(c.d_model), bias=normal(c.d_model))


initial = dict(embedding=normal(c.vocab, c.d_model), position=normal(c.seq, c.d_model), final_norm=norm_weights())
for i in range(c.layers):
    maps = {n: normal(c.d_model, c.heads, c.d_head) for n in ("query", "key", "value")}
    initial[f"layer{i}"] = dict(norm1=norm_weights(), norm2=norm_weights(), out=normal(c.heads, c.d_head, c.d_model),
                                up=dict(kernel=normal(c.d_model, c.d_ff), bias=normal(c.d_ff)),
                                down=dict(kernel=normal(c.d_ff, c.d_model), bias=normal(c.d_model)), **maps)
words = random.integers(0, c.vocab, (c.steps, c.batch, c.seq + 1)).astype(np.int32)


def layer_norm(x, p):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + rates["layer_norm_epsilon"]) * p["scale"] + p["bias"]


def loss(p, sentences):
    x = p["embedding"][sentences[:, :-1]] + p["position"]
    for i in range(c.layers):
        w = p[f"layer{i}"]
        a = layer_norm(x, w["norm1"])
        q, k, v = (jnp.einsum("bsd,dhk->bshk", a, w[n]) for n in ("query", "key", "value"))
        scores = jnp.einsum("bshk,bthk->bhst", q, k) / np.sqrt(c.d_head)
        scores = jnp.where(jnp.tril(jnp.ones((c.seq, c.seq), bool)), scores, -1e30)
        mixed = jnp.einsum("bhst,bthk->bshk", jax.nn.softmax(scores, -1), v)
        x = x + jnp.einsum("bshk,hkd->bsd", mixed, w["out"])
        h = jax.nn.gelu(layer_norm(x, w["norm2"]) @ w["up"]["kernel"] + w["up"]["bias"], approximate=True)
        x = x + h @ w["down"]["kernel"] + w["down"]["bias"]
    scores = layer_norm(x, p["final_norm"]) @ p["embedding"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(scores, -1), sentences[:, 1:, None], -1).mean()


step = jax.jit(jax.value_and_grad(loss))
tree_map = jax.tree_util.tree_map
p = tree_map(jnp.asarray, initial)
mean, square = tree_map(jnp.zeros_like, p), tree_map(jnp.zeros_like, p)
losses, first = [], None
for i in range(c.steps):
    value, slope = step(p, words[i])
    losses.append(float(value))
    first = slope if first is None else first
    b1, b2 = rates["beta1"], rates["beta2"]
    mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, slope)
    square = tree_map(lambda s, g: b2 * s + (1 - b2) * g * g, square, slope)
    scale1, scale2 = 1 - b1 ** (i + 1), 1 - b2 ** (i + 1)
    p = tree_map(lambda w, m, s: w - rates["learning_rate"] * (m / scale1) / (jnp.sqrt(s / scale2) + rates["epsilon"]), p, mean, square)

with h5py.File(c.file, "w") as f:
    for name, number in vars(c).items():
        if name != "file":
            f.attrs[name] = np.int64(number)
    for name, number in rates.items():
        f.attrs[name] = np.float64(number)

    def put(path, tree):
        for name, item in tree.items():
            if isinstance(item, dict):
                put(f"{path}/{name}", item)
            else:
                f[f"{path}/{name}"] = np.asarray(item)

    put("initial", initial), put("first_gradient", first), put("final", p)
    f["losses"], f["tokens"] = np.array(losses), words
