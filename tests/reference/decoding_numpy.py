#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes decoding_numpy.hpp next to it: results of numpy for the scores of a model that is a formula.

    pip install numpy
    decoding_numpy.py
"""
import pathlib

import numpy

WORDS = 5
END = 0


def scores_after(tokens: list[int]) -> numpy.ndarray:
    """As in tests/unit/decoding_test.cpp."""
    so_far = sum((i + 1) * (t + 1) for i, t in enumerate(tokens))
    return (2 * numpy.sin(1.3 * numpy.arange(WORDS) + 0.7 * so_far)).astype(numpy.float32)


def penalised(scores: numpy.ndarray, tokens: list[int], penalty: float) -> numpy.ndarray:
    """As the authors of CTRL write it: a positive score is divided, a negative one multiplied."""
    made = scores.astype(numpy.float64)
    seen = sorted({t for t in tokens if 0 <= t < len(scores)})
    made[seen] = numpy.where(made[seen] > 0, made[seen] / penalty, made[seen] * penalty)
    return made


def log_softmax(x: numpy.ndarray) -> numpy.ndarray:
    x = x - x.max()
    return x - numpy.log(numpy.exp(x).sum())


def searched(beams: int, steps: int, length_penalty: float, repetition: float) -> list[tuple[list[int], float]]:
    """Every step continues all texts and sorts the continuations; it never stops early."""
    live: list[tuple[list[int], float]] = [([], 0.0)]
    found: list[tuple[list[int], float, float]] = []
    for step in range(steps):
        longer = [(text + [w], log_p + float(p)) for text, log_p in live
                  for w, p in enumerate(log_softmax(penalised(scores_after(text), text, repetition).astype(numpy.float32).astype(float)))]
        longer.sort(key=lambda t: -t[1])
        ended = [t for t in longer[:2 * beams] if t[0][-1] == END or step + 1 == steps]
        found += [(text, log_p, log_p / len(text)**length_penalty) for text, log_p in ended]
        live = [t for t in longer if t[0][-1] != END][:beams]
    found.sort(key=lambda t: -t[2])
    return [(text, score) for text, _, score in found[:beams]]


def main() -> None:
    lists = {"penalised": penalised(scores_after([3, 1]), [3, 1, 1, 9, -1], 1.7).tolist()}
    for name, options in {"plain": (2, 4, 0, 1), "of_lengths": (3, 5, 1, 1), "without_repetition": (3, 4, 0.5, 1.4)}.items():
        numbers: list[float] = []
        for text, score in searched(*options):
            numbers += [score, len(text), *text]
        lists[name] = numbers
    lines = ["// SPDX-FileCopyrightText: The Cleave authors", "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception", "//",
             "// Written by decoding_numpy.py: scores, and then texts as their score, their length and their tokens.", "#pragma once", "",
             "#include <vector>", "", "namespace recorded_texts {", ""]
    for name, numbers in lists.items():
        lines.append(f"inline const std::vector<double> {name}{{")
        rows = [", ".join(repr(float(x)) for x in numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
        lines.append(",\n".join("    " + row for row in rows) + "};")
    lines += ["", "} // namespace recorded_texts", ""]
    pathlib.Path(__file__).with_suffix(".hpp").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
