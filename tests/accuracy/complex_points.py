#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes tests/accuracy/complex_points.txt: functions of complex numbers at ordinary points, computed by mpmath, and at special points.

tests/unit/accuracy_test.cpp compares the functions of the kernels with these values. A line is a function, c64 or c128, its operands, `=`, and
the parts of the result. The special points are zeros, infinities and NaN in both parts: their values are those of numpy, which calls the C
library. `~` before a part: its sign is not specified by C99, Annex G. Needs mpmath and numpy.
"""
import itertools
import math
import pathlib
import random
import warnings

import mpmath as mp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ORDINARY = {"exp": mp.exp, "log": mp.log, "tanh": mp.tanh, "sqrt": mp.sqrt, "rsqrt": lambda z: 1 / mp.sqrt(z), "sin": mp.sin, "cos": mp.cos,
            "abs": lambda z: mp.mpc(abs(z), 0)}
SPECIAL = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos}
# What went wrong elsewhere: the result is a number, but not what is computed on the way.
EDGES = {"c64": {"exp": [(100, 0.0), (89, 1.5), (88.8, 1.2), (-95, 0.5)], "log": [(3e38, 3e38), (1e-42, 1e-43), (1, 1e-12), (-2e38, 3e38)],
                 "tanh": [(-100, 1), (100, 1), (0.3, 1.5707963), (40, -2), (1e-30, 1e-30)],
                 "sqrt": [(2e38, 0.0), (-4, 0.0), (-4, -0.0), (3e38, -3e38), (1e-42, 1e-44), (-1e-44, 1e-45)], "rsqrt": [(2e38, 1e38), (1e-42, 1e-44), (-4, -0.0)],
                 "sin": [(0.5, 89), (0.0, 80), (1, -89.2)], "cos": [(0.5, 89), (0.0, 80), (1, -89.2)], "abs": [(2e38, 2e38), (1e-44, 1e-44)]},
         "c128": {"exp": [(709.9, 1.5), (1000, 0.0), (-740, 0.5)], "log": [(1.5e308, 1.5e308), (1e-320, 1e-321), (1, 1e-25), (-1e308, 1e-5)],
                  "tanh": [(-1000, 1), (720, 1), (400, 1), (0.3, 1.5707963267948966), (1e-300, 1e-300)],
                  "sqrt": [(1.7e308, 1.7e308), (-4, 0.0), (-4, -0.0), (1e-320, 1e-322), (-1e-322, 1e-323)], "rsqrt": [(1.5e308, 1e308), (1e-320, 1e-321)],
                  "sin": [(0.5, 710), (0.0, 200), (1, -710.3)], "cos": [(0.5, 710), (0.0, 200), (1, -710.3)], "abs": [(1e308, 1e308), (5e-324, 5e-324)]}}
QUOTIENTS = {"c64": [((1, 0), (3e38, 3e38)), ((1, 0), (1e-40, 1e-40)), ((3e38, 3e38), (3e38, -3e38)), ((1e-44, 1e-45), (1e-44, 3e-45)), ((3e38, 1e38), (1.5, 0.7)),
                     ((1e-30, 1), (1e30, 1e-30))],
             "c128": [((1, 0), (1.7e308, 1.7e308)), ((1, 0), (1e-310, 1e-310)), ((1e308, 1e308), (1e308, -1e308)), ((1e-323, 5e-324), (1e-323, 1.5e-323)),
                      ((1.7e308, 1e308), (1.5, 0.7))]}


def in_type(x: float, element: str) -> float:
    return float(np.float32(x)) if element == "c64" else float(x)


def number(x: float) -> str:
    return str(x) if math.isinf(x) or math.isnan(x) else float(x).hex()


def exact(f, *operands) -> str:
    z = mp.mpc(f(*(mp.mpc(*o) for o in operands)))
    return " ".join(("~" if part == 0 else "") + mp.nstr(part, 22) for part in (z.real, z.imag))


def signed_cut(name: str, x: float, y: float) -> str | None:
    """mpmath has no negative zero: below the cut is the conjugate of above."""
    if y == 0 and math.copysign(1, y) < 0:
        z = mp.mpc(ORDINARY[name](mp.mpc(x, 0)))
        return f"{mp.nstr(z.real, 22)} {mp.nstr(-z.imag, 22)}"
    return None


def special(name: str, x: float, y: float) -> str:
    z = complex(SPECIAL[name](np.complex128(complex(x, y))))
    angle, size = (x, y) if name in ("sin", "cos") else (y, x)
    unspecified = name not in ("sqrt", "log") and (not math.isfinite(angle) or math.isnan(size)) or name == "sqrt" and x == -math.inf and math.isnan(y)

    def part(v: float) -> str:
        text = "-0.0" if v == 0 and math.copysign(1, v) < 0 else mp.nstr(mp.mpf(v), 22)
        return "~" + text if unspecified and not math.isnan(v) else text
    return f"{part(z.real)} {part(z.imag)}"


def lines():
    mp.mp.dps = 700
    choose = random.Random(2)
    for element in ("c64", "c128"):
        largest = 80 if element == "c64" else 700
        for name, f in ORDINARY.items():
            points = list(EDGES[element][name])
            for _ in range(16):
                scale = 10**choose.uniform(-6, 1.5)
                ratio = 10**choose.uniform(-3, 3)
                points.append((choose.choice((-1, 1)) * scale, max(-largest, min(largest, choose.choice((-1, 1)) * scale * ratio))))
            for x, y in ((in_type(x, element), in_type(y, element)) for x, y in points):
                yield f"{name} {element} {number(x)} {number(y)} = " + (signed_cut(name, x, y) or exact(f, (x, y)))
        quotients = list(QUOTIENTS[element])
        for _ in range(20):
            quotients.append(tuple((choose.uniform(-9, 9) * 10**choose.uniform(-9, 9), choose.uniform(-9, 9)) for _ in range(2)))
        for n, d in quotients:
            n, d = (tuple(in_type(v, element) for v in z) for z in (n, d))
            yield f"div {element} {number(n[0])} {number(n[1])} {number(d[0])} {number(d[1])} = " + exact(lambda a, b: a / b, n, d)
        for n, d in [((2, 0), (3, 0)), ((-2, 1), (2, 0)), ((0.5, 0.3), (1.5, -2)), ((-1, 0), (0.5, 0)), ((1.1, -0.7), (0, 1)), ((3, 4), (-3, 0)), ((0, 0), (0, 0))]:
            n, d = (tuple(in_type(v, element) for v in z) for z in (n, d))
            yield f"pow {element} {number(n[0])} {number(n[1])} {number(d[0])} {number(d[1])} = " + exact(mp.power, n, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SPECIAL:
            for x, y in itertools.product((-math.inf, -1.25, -0.0, 0.0, 1.25, math.inf, math.nan), repeat=2):
                if not (math.isfinite(x) and math.isfinite(y) and x != 0 and y != 0):
                    for element in ("c64", "c128"):
                        yield f"{name} {element} {number(x)} {number(y)} = {special(name, x, y)}"


if __name__ == "__main__":
    (HERE / "complex_points.txt").write_text("".join(f"{line}\n" for line in lines()))
