#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small encoder of sentences with random weights, as published ones are, and what JAX computes with it in float64.

    pip install jax h5py
    encoder_jax.py encoder

The folder then has model.safetensors, config.json, vocab.txt and sentences.h5 (token_ids, mask, last_hidden_state, embeddings). No size is
a multiple of another one, so that every mesh divides them unevenly.
"""
import argparse
import json
import pathlib
import struct

import h5py
import jax
import jax.numpy as jnp
import numpy

jax.config.update("jax_enable_x64", True)

LAYERS, EMBED, HEADS, HIDDEN, PLACES = 3, 15, 3, 22, 11
EPSILON = 1e-12
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz.", *(f"##{c}" for c in "aeinorst"), "one", "two", "mesh", "##es",
         "tensor", "device", "##s", "the"]


def weights(random: numpy.random.Generator) -> dict[str, numpy.ndarray]:
    """Arrays under the names of published files; a matrix is [out, in]."""
    made: dict[str, numpy.ndarray] = {}

    def draw(name: str, *shape: int, around: float = 0.0, spread: float = 0.3) -> None:
        made[name] = (around + spread * random.standard_normal(shape)).astype(numpy.float32)

    def linear(name: str, rows: int, columns: int) -> None:
        draw(name + ".weight", rows, columns)
        draw(name + ".bias", rows)

    def norm(name: str) -> None:
        draw(name + ".weight", EMBED, around=1)
        draw(name + ".bias", EMBED)

    made["embeddings.position_ids"] = numpy.arange(PLACES, dtype=numpy.int64)[None]
    draw("embeddings.word_embeddings.weight", len(WORDS), EMBED, spread=1)
    draw("embeddings.position_embeddings.weight", PLACES, EMBED)
    draw("embeddings.token_type_embeddings.weight", 2, EMBED)
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        for part in "query", "key", "value":
            linear(start + "attention.self." + part, EMBED, EMBED)
        linear(start + "attention.output.dense", EMBED, EMBED)
        norm(start + "attention.output.LayerNorm")
        linear(start + "intermediate.dense", HIDDEN, EMBED)
        linear(start + "output.dense", EMBED, HIDDEN)
        norm(start + "output.LayerNorm")
    linear("pooler.dense", EMBED, EMBED)
    return made


def store(path: pathlib.Path, arrays: dict[str, numpy.ndarray]) -> None:
    """Writes a safetensors file; arrays of uint16 are the bits of bfloat16."""
    header, end = {}, 0
    for name, array in arrays.items():
        kind = {"float32": "F32", "int64": "I64", "uint16": "BF16"}[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()))


def encode(arrays: dict[str, numpy.ndarray], ids: numpy.ndarray, mask: numpy.ndarray) -> tuple[jax.Array, jax.Array]:
    """The states of all tokens after the last layer, and the embeddings of all sentences."""
    w = {name: jnp.asarray(array, jnp.float64) for name, array in arrays.items() if array.dtype == numpy.float32}

    def linear(x: jax.Array, name: str) -> jax.Array:
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x: jax.Array, name: str) -> jax.Array:
        return jax.nn.standardize(x, axis=-1, epsilon=EPSILON) * w[name + ".weight"] + w[name + ".bias"]

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:ids.shape[1]]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        q, k, v = (linear(x, start + "attention.self." + part).reshape(*ids.shape, HEADS, -1) for part in ("query", "key", "value"))
        scores = jnp.einsum("bpnh,bsnh->bnps", q, k) / numpy.sqrt(EMBED / HEADS)
        shares = jax.nn.softmax(jnp.where(mask[:, None, None, :] != 0, scores, -jnp.inf), -1)
        mixed = jnp.einsum("bnps,bsnh->bpnh", shares, v).reshape(x.shape)
        x = norm(x + linear(mixed, start + "attention.output.dense"), start + "attention.output.LayerNorm")
        hidden = jax.nn.gelu(linear(x, start + "intermediate.dense"), approximate=False)
        x = norm(x + linear(hidden, start + "output.dense"), start + "output.LayerNorm")
    mean = (x * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
    return x, mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    random = numpy.random.default_rng(49)
    arrays = weights(random)
    store(folder / "model.safetensors", arrays)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"hidden_act": "gelu", "layer_norm_eps": EPSILON, "num_attention_heads": HEADS}) + "\n",
                                        encoding="utf-8")
    lengths = numpy.array([9, 4, 1, 7, 8, 2, 5])
    mask = (numpy.arange(9) < lengths[:, None]).astype(numpy.int32)
    ids = (random.integers(4, len(WORDS), mask.shape) * mask).astype(numpy.int32)
    states, embeddings = encode(arrays, ids, mask)
    with h5py.File(folder / "sentences.h5", "w") as file:
        for name, array in {"token_ids": ids, "mask": mask, "last_hidden_state": states, "embeddings": embeddings}.items():
            file[name] = numpy.asarray(array, numpy.int32 if array.dtype == numpy.int32 else numpy.float32)


if __name__ == "__main__":
    main()
