#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes tests/accuracy/points.txt: elementwise functions and their derivatives at points of their whole range, computed by mpmath.

tests/unit/accuracy_test.cpp compares the functions of the kernels with these values. The limits below are those of the table in
docs/08-operations.md, which tests/readme/operations.py writes. A line of points.txt is a function, f32 or f64, its operands, `=`, the value
and the derivative by each operand. A number may be followed by the error that it may have: `u` in units of its last place, `a` absolute.
Needs mpmath; with a number as argument, that many points for each function and type.
"""
import math
import pathlib
import random
import struct
import sys
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
VALUE_ULPS, DERIVATIVE_ULPS = 4, 16


class Exempt(NamedTuple):
    """Where a function has a larger error, and which."""
    where: str
    types: tuple[str, ...]
    # "value" or "derivative".
    what: str
    # Of the operands: whether they are in this range.
    holds: Callable
    limit: str
    says: str


BOTH = ("f32", "f64")
EXEMPT: dict[str, list[Exempt]] = {
    "exp": [Exempt("x < -87.3365", ("f32",), w, lambda x: x < -87.3365, "a1.2e-38", "0 instead of a subnormal number") for w in ("value", "derivative")],
    "expm1": [Exempt("x < -87.3365", ("f32",), "derivative", lambda x: x < -87.3365, "a1.2e-38", "0 instead of a subnormal number")],
    "sigmoid": [Exempt("x < -88.722", ("f32",), "value", lambda x: x < -88.722, "a1.2e-38", "0 instead of a subnormal number"),
                Exempt("x < -709.78", ("f64",), "value", lambda x: x < -709.78, "a2.3e-308", "0 instead of a subnormal number"),
                Exempt("x < -88.722", ("f32",), "derivative", lambda x: x < -88.722, "a1.2e-38", "0 instead of a subnormal number"),
                Exempt("x < -709.78", ("f64",), "derivative", lambda x: x < -709.78, "a2.3e-308", "0 instead of a subnormal number"),
                Exempt("x > 2", ("f32",), "derivative", lambda x: x > 2, "a1.2e-7", "an absolute error below 2^-23"),
                Exempt("x > 2", ("f64",), "derivative", lambda x: x > 2, "a2.2e-16", "an absolute error below 2^-52")],
    "tanh": [Exempt("2.9 < |x| < 8", ("f32",), "value", lambda x: 2.9 < abs(x) < 8, "u7", "7 ulp"),
             Exempt("|x| > 0.8", ("f32",), "derivative", lambda x: abs(x) > 0.8, "a8.4e-7", "an absolute error below 7 * 2^-23"),
             Exempt("|x| > 0.8", ("f64",), "derivative", lambda x: abs(x) > 0.8, "a4.4e-16", "an absolute error below 2^-51")],
    "erf": [Exempt("1.4 < |x| < 4", ("f32",), "value", lambda x: 1.4 < abs(x) < 4, "u8", "8 ulp"),
            Exempt("|x| > 9.3", ("f32",), "derivative", lambda x: abs(x) > 9.3, "a1.4e-38", "0 instead of a subnormal number")],
    "erfc": [Exempt("|x| > 9.3", ("f32",), "derivative", lambda x: abs(x) > 9.3, "a1.4e-38", "0 instead of a subnormal number")],
    "gelu": [Exempt("x < -1.3", ("f32",), "value", lambda x: x < -1.3, "a1.2e-7", "an absolute error below 2^-23"),
             Exempt("x < -1.3", ("f64",), "value", lambda x: x < -1.3, "a2.3e-16", "an absolute error below 2^-52"),
             Exempt("x < 0", ("f32",), "derivative", lambda x: x < 0, "a4.8e-7", "an absolute error below 2^-21"),
             Exempt("x < 0", ("f64",), "derivative", lambda x: x < 0, "a8.9e-16", "an absolute error below 2^-50"),
             Exempt("2 < x < 8", BOTH, "derivative", lambda x: 2 < x < 8, "u64", "64 ulp")],
    "div": [Exempt("x / y is subnormal", ("f32",), "derivative", lambda x, y: abs(x / y) < 1.18e-38, "u8.4e6", "the digits of x / y"),
            Exempt("x / y is subnormal", ("f64",), "derivative", lambda x, y: abs(x / y) < 2.3e-308, "u4.6e15", "the digits of x / y")],
    "pow": [Exempt("x to the power of y - 1 overflows", ("f32",), "derivative", lambda x, y: (y - 1) * math.log(x) > 88.7, "uinf", "infinite"),
            Exempt("x to the power of y - 1 overflows", ("f64",), "derivative", lambda x, y: (y - 1) * math.log(x) > 709.7, "uinf", "infinite"),
            Exempt("|log x| max(1, |y|) > 12", ("f32",), "derivative", lambda x, y: abs(math.log(x)) * max(1, abs(y)) > 12, "u64", "64 ulp"),
            Exempt("|log x| max(1, |y|) > 12", ("f64",), "derivative", lambda x, y: abs(math.log(x)) * max(1, abs(y)) > 12, "u400", "400 ulp")],
}

MAGNITUDES = {
    "f32": [1.5e-45, 7.3e-41, 3.1e-39, 1.3e-38, 1.7e-30, 2.9e-23, 1.1e-20, 4.3e-12, 1.9e-7, 3.7e-4, 0.0131, 0.11, 0.37, 0.61, 0.73, 0.9, 0.9995, 1.0,
            1.00007, 1.13, 1.7, 2.7, 4.4, 5.9, 8.7, 9.9, 13.3, 27.0, 53.0, 71.0, 87.2, 88.6, 89.2, 128.3, 777.0, 1.3e5, 2.7e9, 1.3e19, 1.1e20, 1.7e25,
            4.1e30, 3.3e38],
    "f64": [5e-324, 7.7e-320, 3.1e-309, 2.3e-308, 1.7e-200, 1.3e-155, 3.3e-100, 1.9e-30, 1.1e-16, 7.1e-9, 3.7e-4, 0.0131, 0.11, 0.37, 0.61, 0.73, 0.9,
            0.9999997, 1.0, 1.00000007, 1.13, 1.7, 2.7, 4.4, 5.9, 8.7, 13.3, 26.1, 53.0, 333.0, 700.1, 709.5, 710.2, 1024.3, 7777.0, 1.3e9, 1.1e20,
            2.7e100, 1.9e154, 4.1e200, 1.7e308],
}


def in_type(x: float, element: str) -> float:
    return struct.unpack("f", struct.pack("f", x))[0] if element == "f32" else float(x)


def functions(mp):
    """Name, the function, its derivatives, whether numbers are in its domain."""
    def anywhere(*_):
        return True
    half, one = mp.mpf(1) / 2, mp.mpf(1)

    def gelu_inner(x):
        return mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)

    def gelu(x):
        return x / (1 + mp.exp(-2 * gelu_inner(x)))

    def gelu_slope(x):
        s = 1 / (1 + mp.exp(-2 * gelu_inner(x)))
        return s + x * s * (1 / (1 + mp.exp(2 * gelu_inner(x)))) * 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * x * x)

    def away(x):
        return mp.sign(x) * mp.floor(abs(x) + half)
    one_operand = [
        ("neg", lambda x: -x, lambda x: -one, anywhere), ("abs", abs, mp.sign, anywhere), ("sign", mp.sign, lambda x: 0, anywhere),
        ("exp", mp.exp, mp.exp, lambda x: x < 1e4), ("expm1", mp.expm1, mp.exp, lambda x: x < 1e4),
        ("log", mp.log, lambda x: 1 / x, lambda x: x > 0), ("tanh", mp.tanh, lambda x: mp.sech(x)**2, lambda x: abs(x) < 1e4),
        ("sqrt", mp.sqrt, lambda x: half / mp.sqrt(x), lambda x: x > 0), ("rsqrt", lambda x: 1 / mp.sqrt(x), lambda x: -half / mp.sqrt(x)**3, lambda x: x > 0),
        ("erf", mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda x: abs(x) < 1e3),
        ("gelu", gelu, gelu_slope, lambda x: abs(x) < 1e3), ("relu", lambda x: max(x, 0), lambda x: 1 if x > 0 else 0, anywhere),
        ("sigmoid", lambda x: 1 / (1 + mp.exp(-x)), lambda x: 1 / (1 + mp.exp(-x)) / (1 + mp.exp(x)), lambda x: abs(x) < 1e4),
        ("sin", mp.sin, mp.cos, anywhere), ("cos", mp.cos, lambda x: -mp.sin(x), anywhere), ("floor", mp.floor, lambda x: 0, anywhere),
        ("tan", mp.tan, lambda x: 1 + mp.tan(x)**2, anywhere), ("asin", mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), lambda x: abs(x) < 1),
        ("acos", mp.acos, lambda x: -1 / mp.sqrt(1 - x * x), lambda x: abs(x) < 1), ("atan", mp.atan, lambda x: 1 / (1 + x * x), anywhere),
        ("sinh", mp.sinh, mp.cosh, lambda x: abs(x) < 1e4), ("cosh", mp.cosh, mp.sinh, lambda x: abs(x) < 1e4),
        ("asinh", mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), anywhere), ("acosh", mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1), lambda x: x > 1),
        ("atanh", mp.atanh, lambda x: 1 / (1 - x * x), lambda x: abs(x) < 1), ("exp2", lambda x: mp.power(2, x), lambda x: mp.power(2, x) * mp.log(2), lambda x: abs(x) < 1e4),
        ("log2", lambda x: mp.log(x) / mp.log(2), lambda x: 1 / (x * mp.log(2)), lambda x: x > 0),
        ("log10", mp.log10, lambda x: 1 / (x * mp.log(10)), lambda x: x > 0), ("log1p", mp.log1p, lambda x: 1 / (1 + x), lambda x: x > -1),
        ("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), lambda x: 1 / (3 * mp.cbrt(abs(x))**2), anywhere),
        ("erfc", mp.erfc, lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda x: abs(x) < 1e3), ("ceil", mp.ceil, lambda x: 0, anywhere),
        ("trunc", lambda x: mp.sign(x) * mp.floor(abs(x)), lambda x: 0, anywhere), ("round", away, lambda x: 0, anywhere)]
    two = [
        ("add", lambda x, y: x + y, (lambda x, y: 1, lambda x, y: 1), anywhere), ("sub", lambda x, y: x - y, (lambda x, y: 1, lambda x, y: -1), anywhere),
        ("mul", lambda x, y: x * y, (lambda x, y: y, lambda x, y: x), anywhere), ("div", lambda x, y: x / y, (lambda x, y: 1 / y, lambda x, y: -x / y**2), anywhere),
        ("pow", mp.power, (lambda x, y: y * mp.power(x, y - 1), lambda x, y: mp.power(x, y) * mp.log(x)), lambda x, y: x > 0 and abs(y * mp.log(x)) < 1e4),
        ("maximum", max, (lambda x, y: 1 if x > y else 0, lambda x, y: 1 if y > x else 0), lambda x, y: x != y),
        ("minimum", min, (lambda x, y: 1 if x < y else 0, lambda x, y: 1 if y < x else 0), lambda x, y: x != y),
        ("atan2", mp.atan2, (lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)), anywhere),
        ("hypot", mp.hypot, (lambda x, y: x / mp.hypot(x, y), lambda x, y: y / mp.hypot(x, y)), anywhere)]
    return [(n, 1, f, (d,), within) for n, f, d, within in one_operand] + [(n, 2, f, d, within) for n, f, d, within in two]


def limit_of(name: str, element: str, what: str, at: tuple) -> str:
    for e in EXEMPT.get(name, []):
        if element in e.types and e.what == what and e.holds(*at):
            return " " + e.limit
    return ""


def lines(count: int):
    import mpmath as mp
    mp.mp.dps = 700
    choose = random.Random(1)
    for name, arity, f, slopes, within in functions(mp):
        for element in BOTH:
            signed = [s * m for m in MAGNITUDES[element] for s in (1, -1)]
            found: list[tuple] = []
            tries = 0
            while len(found) < count and tries < 100 * count:
                tries += 1
                if arity == 1:
                    at = (in_type(choose.choice(signed) * (1 if count < 40 else choose.uniform(0.7, 1.02)), element),)
                else:
                    first = choose.choice(signed)
                    second = choose.choice(signed) if choose.random() < 0.4 else first * choose.choice((-1, 1)) * 10**choose.uniform(-3, 3)
                    if abs(second) > MAGNITUDES[element][-1]:
                        continue
                    if name == "pow":
                        first, second = abs(choose.choice(signed)), choose.choice(signed)
                    at = (in_type(first, element), in_type(second, element))
                if 0 not in at and at not in found and within(*(mp.mpf(x) for x in at)):
                    found.append(at)
            for at in sorted(found):
                exact = tuple(mp.mpf(x) for x in at)
                text = f"{name} {element} " + " ".join(x.hex() for x in at) + " = " + mp.nstr(mp.mpf(f(*exact)), 22) + limit_of(name, element, "value", at)
                for slope in slopes:
                    text += " " + mp.nstr(mp.mpf(slope(*exact)), 22) + limit_of(name, element, "derivative", at)
                yield text


if __name__ == "__main__":
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    (HERE / "points.txt" if len(sys.argv) < 3 else pathlib.Path(sys.argv[2])).write_text("".join(f"{line}\n" for line in lines(given)))
