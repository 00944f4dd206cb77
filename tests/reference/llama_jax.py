#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes two small decoders like Llama with random weights, and what JAX computes with them in float64.

    pip install jax h5py
    llama_jax.py llama

The folder then has a checkpoint of llama2.c (model.bin, tokenizer.bin, scores.h5) and one of safetensors in a folder of its own
(arrays/model.safetensors, config.json, scores.h5) in bfloat16, with a rotation as Llama 3.1 has it. No axis divides a size evenly.
"""
import argparse
import json
import math
import pathlib
import struct

import h5py
import jax
import jax.numpy as jnp
import numpy

from encoder_jax import store

jax.config.update("jax_enable_x64", True)

LAYERS, EMBED, HEADS, GROUP, HEAD, HIDDEN, POSITIONS = 2, 18, 3, 1, 6, 22, 24
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), " ", *"abcdefghijklmnopqrstuvwxyz", "th", "he", "the", " the",
          "in", "ing", "an", "and"]


def weights(random: numpy.random.Generator, vocabulary: int, heads: int, group: int) -> dict[str, numpy.ndarray]:
    """Arrays under the names of published files; a matrix is [out, in], of all layers together."""
    shapes = {"query": (heads * group * HEAD, EMBED), "key": (heads * HEAD, EMBED), "value": (heads * HEAD, EMBED),
              "out": (EMBED, heads * group * HEAD), "gate": (HIDDEN, EMBED), "down": (EMBED, HIDDEN), "up": (HIDDEN, EMBED)}
    made = {name: 0.3 * random.standard_normal((LAYERS, *shape)) for name, shape in shapes.items()}
    for name in "before_attention", "before_feed_forward":
        made[name] = 1 + 0.3 * random.standard_normal((LAYERS, EMBED))
    made["words"] = random.standard_normal((vocabulary, EMBED))
    made["at_the_end"] = 1 + 0.3 * random.standard_normal(EMBED)
    made["scores"] = random.standard_normal((vocabulary, EMBED))
    return {name: array.astype(numpy.float32) for name, array in made.items()}


def rates(base: float, scaling: dict[str, float]) -> numpy.ndarray:
    made = []
    for i in range(0, HEAD, 2):
        rate = base ** (-i / HEAD)
        if scaling:
            wave, context = 2 * math.pi / rate, scaling["original_max_position_embeddings"]
            low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
            smooth = min(max((context / wave - low) / (high - low), 0), 1)
            rate = (1 - smooth) * rate / factor + smooth * rate
        made.append(rate)
    return numpy.array(made)


def decode(arrays: dict[str, numpy.ndarray], ids: numpy.ndarray, heads: int, group: int, rate: numpy.ndarray, neighbours: bool,
           epsilon: float) -> jax.Array:
    """The scores of all words after each token."""
    w = {name: jnp.asarray(array, jnp.float64) for name, array in arrays.items()}

    def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale

    angles = jnp.exp(1j * jnp.arange(ids.shape[1])[:, None] * rate)[None, :, None, :]

    def turned(x: jax.Array) -> jax.Array:
        pairs = x.reshape(*x.shape[:-1], HEAD // 2, 2) if neighbours else jnp.stack(jnp.split(x, 2, -1), -1)
        made = (pairs[..., 0] + 1j * pairs[..., 1]) * angles
        both = jnp.stack([made.real, made.imag], -1)
        return both.reshape(x.shape) if neighbours else jnp.concatenate([both[..., 0], both[..., 1]], -1)

    x = w["words"][ids]
    for layer in range(LAYERS):
        h = norm(x, w["before_attention"][layer])
        q, k, v = ((h @ w[name][layer].T).reshape(*ids.shape, -1, HEAD) for name in ("query", "key", "value"))
        k, v = (jnp.repeat(t, group, 2) for t in (turned(k), v))
        scores = jnp.einsum("bpnh,bsnh->bnps", turned(q), k) / math.sqrt(HEAD)
        seen = jnp.tril(jnp.ones((ids.shape[1], ids.shape[1]), bool))
        mixed = jnp.einsum("bnps,bsnh->bpnh", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1), v)
        x = x + mixed.reshape(*ids.shape, heads * group * HEAD) @ w["out"][layer].T
        h = norm(x, w["before_feed_forward"][layer])
        x = x + (jax.nn.silu(h @ w["gate"][layer].T) * (h @ w["up"][layer].T)) @ w["down"][layer].T
    return norm(x, w["at_the_end"]) @ w["scores"].T


def store_scores(path: pathlib.Path, ids: numpy.ndarray, scores: jax.Array) -> None:
    with h5py.File(path, "w") as file:
        file["token_ids"] = ids
        file["scores"] = numpy.asarray(scores, numpy.float32)


def write_checkpoint(folder: pathlib.Path, random: numpy.random.Generator) -> None:
    """Of llama2.c, whose embedding table is also that of the scores."""
    arrays = weights(random, len(PIECES), HEADS, GROUP)
    arrays["scores"] = arrays["words"]
    order = ["words", "before_attention", "query", "key", "value", "out", "before_feed_forward", "gate", "down", "up", "at_the_end"]
    header = struct.pack("<7i", EMBED, HIDDEN, LAYERS, HEADS * GROUP, HEADS, len(PIECES), POSITIONS)
    unused = bytes(POSITIONS * HEAD * 4)
    (folder / "model.bin").write_bytes(header + b"".join(arrays[name].tobytes() for name in order) + unused)
    table = struct.pack("<I", max(len(piece) for piece in PIECES))
    for number, piece in enumerate(PIECES):
        table += struct.pack("<fi", -float(number), len(piece)) + piece.encode()
    (folder / "tokenizer.bin").write_bytes(table)
    ids = random.integers(0, len(PIECES), (2, 7)).astype(numpy.int32)
    scores = decode(arrays, ids, HEADS, GROUP, rates(10000, {}), True, 1e-5)
    store_scores(folder / "scores.h5", ids, scores)
    store_scores(folder / "no_sequences.h5", ids[:0], scores[:0])


def write_arrays(folder: pathlib.Path, random: numpy.random.Generator) -> None:
    vocabulary, heads, group = 37, 2, 2
    bits = {name: ((array.view(numpy.uint32) + 0x8000) >> 16).astype(numpy.uint16)
            for name, array in weights(random, vocabulary, heads, group).items()}
    arrays = {name: (array.astype(numpy.uint32) << 16).view(numpy.float32) for name, array in bits.items()}
    names = {"query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj", "out": "self_attn.o_proj",
             "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj", "before_attention": "input_layernorm",
             "before_feed_forward": "post_attention_layernorm"}
    stored = {"model.embed_tokens.weight": bits["words"], "model.norm.weight": bits["at_the_end"], "lm_head.weight": bits["scores"]}
    for name, published in names.items():
        for layer in range(LAYERS):
            stored[f"model.layers.{layer}.{published}.weight"] = bits[name][layer]
    store(folder / "model.safetensors", stored)
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    config = {"num_attention_heads": heads * group, "num_key_value_heads": heads, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-6,
              "rope_theta": 500.0, "rope_scaling": {**scaling, "rope_type": "llama3"}}
    (folder / "config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
    ids = random.integers(0, vocabulary, (3, 9)).astype(numpy.int32)
    store_scores(folder / "scores.h5", ids, decode(arrays, ids, heads, group, rates(500, scaling), False, 1e-6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    (folder / "arrays").mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(50)
    write_checkpoint(folder, random)
    write_arrays(folder / "arrays", random)


if __name__ == "__main__":
    main()
