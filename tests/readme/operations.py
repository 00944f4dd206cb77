#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/08-operations.md: every operation, its gradient, what sharded dims cost, and the tests that run it under MPI.

Operations, how they are written, their classes and the derivatives of elementwise operations come from graph/op_list.hpp.
Composed functions come from expr/ and linalg/. Errors
come from tests/accuracy/points.py. Tests are found by the names that the functions in tests/mpi use. This file has what
holds for a whole class. With --check nothing is written; the script fails if the page is out of date.
"""
import pathlib
import re
import sys
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import generated_page  # noqa: E402
from generated_page import ROOT, Wrong, read, wrapped  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "accuracy"))
import points  # noqa: E402

HEADERS = ROOT / "include" / "cleave"
TESTS = ROOT / "tests" / "mpi"
PAGE = ROOT / "docs" / "08-operations.md"

# How programs spell what the list cannot know: a user's operations have names of their own.
SPELLED = {"user": r"\b(?:soft|fma3|gcd)\("}
# What moves if the dim is sharded, for each class.
SHARDED = {
    "source": "nothing",
    "elementwise": "nothing",
    "contraction": "the result is a partial sum",
    "reduction": "the result is a partial value",
    "call": "dims in `whole` are gathered",
    "remap": "the elements that a device lacks, in one exchange",
    "gather": "indices are sent, rows come back",
    "scatter": "partial tables are reduced, or rows are sent",
    "cumulative": "one value for each slice",
    "sort": "elements go to the owner of their rank, in one exchange",
    "loop": "the dim of the loop is gathered",
    "view": "nothing, if blocks nest",
    "annotation": "what the layout requires",
}
# Where an operation differs from its class.
OWN_SHARDED = {"searchsorted": "the result is a partial sum"}
# Gradients of classes with one rule. Elementwise ops have their gradients in the list.
GRADIENT = {"contraction": "yes", "reduction": "yes", "remap": "yes", "gather": "to the table", "scatter": "to the rows", "view": "yes",
            "annotation": "yes", "call": "with your own rule", "source": "-", "cumulative": "yes", "sort": "yes", "loop": "yes"}
OWN_GRADIENT = {"stop_gradient": "stops", "user": "with your own entry", "complex": "no", "imag": "no", "argsort": "0", "searchsorted": "0", "until": "no"}
# Uneven extents are ordinary everywhere else.
UNEVEN = {"split": "gathered first", "merge": "gathered first, or elements move"}


class Entry(NamedTuple):
    """An op of graph/op_list.hpp. `forms` is what users write; none if they do not write it."""
    code: str
    what: str
    forms: list[str]
    derivative: bool


def entries() -> list[Entry]:
    found = []
    comment = ""
    text = read(HEADERS / "graph" / "op_list.hpp").split("// clang-format off", 1)[1].split("// clang-format on", 1)[0]
    text = re.sub(r"CLEAVE_INFIX\((\w+), \"[^\"]+\", ", r"CLEAVE_ELEMENTWISE(\1, 2, ", text)
    text = re.sub(r"CLEAVE_REMAP\((\w+), (\d), (\w+), \w+\)", r"CLEAVE_OP(\1, remap, \2, \3)", text)
    for line in re.sub(r",\n +", ", ", text).splitlines():
        if line.startswith("///"):
            comment += line.removeprefix("///")
        elif entry := re.fullmatch(r"CLEAVE_OP\((\w+), (\w+), \d, \w+\)|CLEAVE_ELEMENTWISE\((\w+), \d, \w+, [\w| ]+, (.+)\)", line):
            code, what, elementwise, rest = entry.groups()
            # A comma outside of brackets ends the meaning.
            flat = rest or ""
            while re.search(r"\([^()]*\)", flat):
                flat = re.sub(r"\([^()]*\)", "", flat)
            forms = re.match(r" `([^`]+)`", comment)
            found.append(Entry(code or elementwise, what or "elementwise", forms.group(1).split(", ") if forms else [], "," in flat))
            comment = ""
        elif line and not line.startswith("// "):
            raise Wrong(f"graph/op_list.hpp: this line is no entry: {line}")
    return found


def pattern_of(entry: Entry) -> str:
    """A pattern that finds an op in a program."""
    if entry.code in SPELLED:
        return SPELLED[entry.code]
    if sign := re.fullmatch(r"a (\S+) b", entry.forms[0]):
        return f" {re.escape(sign.group(1))} "
    if sign := re.fullmatch(r"([-!])x", entry.forms[0]):
        return rf"[(,=] ?{sign.group(1)}[\w(]"
    if entry.forms[0].endswith("<Op>"):
        return rf"\b(?:{'|'.join(form.removesuffix('<Op>') for form in entry.forms)})<"
    return rf"\b(?:{'|'.join(entry.forms)})(?:_like)?(?:<[\w:]+>)?\("


def functions() -> list[tuple[str, str]]:
    """Public functions and their headers, from the overloads for values."""
    out = []
    for folder in ("expr", "linalg"):
        for header in sorted((HEADERS / folder).glob("*.hpp")):
            text = re.sub(r"^namespace detail \{.*?^\} // namespace detail", "", read(header), flags=re.MULTILINE | re.DOTALL)
            for name in re.findall(r"^constexpr (?:value|std::pair<value, value>) (\w+)\((?:operand|dim_ref|dim_operand|const value&)", text, re.MULTILINE):
                if (name, f"{folder}/{header.name}") not in out:
                    out.append((name, f"{folder}/{header.name}"))
    return out


def bodies(text: str) -> str:
    """What a program hands to the library: lambdas whose parameters are all `auto`, and statements assigned to tensors."""
    text = re.sub(r"//.*", "", text)
    found = []
    for start in re.finditer(r"\[[^\[\]]*\]\((?:auto \w+(?:, )?)+\)[^{;]*\{", text):
        depth, end = 1, start.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found.append(text[start.end():end])
    found += re.findall(r"^ +\w+ = ([^;]*\b(?:cleave::|exp|max|sum|softmax|fft|ifft|rfft|irfft|argmax|random)\w*\(?[^;]*);", text, re.MULTILINE)
    # Layouts divide dims, and the standard library has functions of the same names.
    return re.sub(r"\bmesh\([^)]*\)", "", re.sub(r"\b(?:std|Kokkos)::\w+", "", "\n".join(found)))


def sources() -> dict[str, str]:
    return {p.stem.removesuffix("_test"): bodies(read(p)) for p in sorted(TESTS.glob("*_test.cpp"))}


def tested(pattern: str, programs: dict[str, str]) -> str:
    found = [name for name, text in programs.items() if re.search(pattern, text)]
    shown = ", ".join(found[:4])
    return f"{shown} and {len(found) - 4} more" if len(found) > 4 else shown or "no"


def accuracy() -> list[str]:
    """The errors of elementwise functions, as tests/unit/accuracy_test.cpp asserts them."""
    lines = ["", "## Accuracy", "",
             wrapped(f"The elementwise functions of float and double have an error below {points.VALUE_ULPS} units in the last place (ulp), and their "
                     f"derivatives below {points.DERIVATIVE_ULPS}. This holds over the whole range, subnormal numbers included, where this table has no "
                     "larger error. 16-bit numbers are computed as float and rounded once. tests/unit/accuracy_test.cpp compares every function with "
                     "values that mpmath computed, as the host computes it. Devices have the functions of their own libraries, which have their own errors. Of complex numbers the error is below 4 ulp of the larger "
                     "part of the result, but that of `pow` of double grows with |y log x|."),
             "",
             wrapped("Composed functions keep these errors, with these exceptions. Activations of minus infinity, such as `gelu` and `nn::silu`, "
                     "are NaN as in JAX, and so are slopes of `nn::silu` at both infinities. `softmax` of scores that are all minus infinity is NaN, as "
                     "in JAX. `nn::attention` and its other kinds give 0 to a position whose mask excludes all sources. They multiply the values of other "
                     "excluded sources by the weight 0, so that NaN or infinity there gives NaN, as in JAX: "
                     "`select` replaces such values. The squares of gradients above 1e19 "
                     "are infinite in float, so that `optim::clip_by_global_norm` makes all of these 0."),
             "", "| function | of | where | float | double |", "|---|---|---|---|---|"]
    rows: dict[tuple[str, str, str, str], dict[str, str]] = {}
    for name, exempt in sorted(points.EXEMPT.items()):
        for e in exempt:
            rows.setdefault((name, e.what, e.where, e.says if len(e.types) == 2 else ""), {}).update({t: e.says for t in e.types})
    for (name, what, where, _), says in rows.items():
        lines.append(f"| `{name}` | {what} | {where.replace('|', chr(92) + '|')} | {says.get('f32', '')} | {says.get('f64', '')} |")
    return lines


def page() -> str:
    programs = sources()
    ops = [e for e in entries() if e.forms]
    lines = ["<!-- Generated by tests/readme/operations.py; do not edit. -->", "# Operations", "",
             "Every operation computes its result on any mesh and in any layout of operands and result. The",
             "[reference](reference.md) says what each operation means. The columns of the table:", "",
             *(wrapped(line, indent="  ", first="- ") for line in (
                 "*sharded*: what moves if the operation works along a sharded dim.",
                 "*uneven*: whether extents may be uneven, so that the last blocks are short or empty.",
                 "*gradient*: whether the operation has a gradient. If it is 0, no gradient flows through the operation.",
                 "*under MPI*: the files in tests/mpi that run the operation in a function. The random programs of `exchange_test` run many of them "
                 "too. The `cases_` files compare values and charged bytes on 8 ranks, for programs whose traffic was recorded from XLA.")), ""]
    order = list(SHARDED)
    for e in ops:
        if e.what not in SHARDED:
            raise Wrong(f"op::{e.code} has class {e.what}, of which tests/readme/operations.py knows nothing")
    lines += ["| operation | written | gradient | sharded | uneven | under MPI |", "|---|---|---|---|---|---|"]
    for e in sorted(ops, key=lambda e: order.index(e.what)):
        gradient = OWN_GRADIENT.get(e.code) or ("yes" if e.derivative else "0" if e.what == "elementwise" else GRADIENT[e.what])
        spelled = ", ".join("`" + form.replace("|", "\\|") + "`" for form in e.forms)
        lines.append(f"| {e.code} | {spelled} | {gradient} | {OWN_SHARDED.get(e.code, SHARDED[e.what])} | {UNEVEN.get(e.code, 'yes')} | "
                     f"{tested(pattern_of(e), programs)} |")
    made = {form for e in ops for form in e.forms}
    lines += ["", "## Composed functions", "", "These functions record several operations, and have the gradients and the communication of these.", "",
              "| function | header | under MPI |", "|---|---|---|"]
    lines += [f"| `{name}` | {header} | {tested(rf'{chr(92)}b{name}(?:<[{chr(92)}w:]+>)?{chr(92)}(', programs)} |"
              for name, header in functions() if name not in made]
    lines += accuracy()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(generated_page.main(__file__, __doc__, PAGE, page))
