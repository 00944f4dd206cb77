#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/08-operations.md: every operation, its gradient, what sharded dims cost, and the tests that run it under MPI.

Operations, their classes and the derivatives of elementwise operations come from ops/table.hpp. Composed functions come from expr/
and linalg/. Tests are found by the names that the functions in tests/mpi use. This file has what holds for a whole class. With
--check nothing is written; the script fails if the page is out of date.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import generated_page  # noqa: E402
from generated_page import ROOT, Wrong, read, wrapped  # noqa: E402

HEADERS = ROOT / "include" / "cleave"
TESTS = ROOT / "tests" / "mpi"
PAGE = ROOT / "docs" / "08-operations.md"

# How an op is written if not by its name, and the pattern that finds it in a program.
WRITTEN = {
    "neg": ("-x", r"[(,=] ?-\w"), "add": ("a + b", r" \+ "), "sub": ("a - b", r" - "),
    "mul": ("a * b", r" \* "), "div": ("a / b", r" / "),
    "equal": ("a == b", r" == "), "not_equal": ("a != b", r" != "), "less": ("a < b", r" < "), "less_equal": ("a <= b", r" <= "),
    "greater": ("a > b", r" > "), "greater_equal": ("a >= b", r" >= "), "logical_and": ("a & b", r" & "), "logical_or": ("a \\| b", r" \| "),
    "logical_not": ("!x", r"[(,=] ?![\w(]"), "reduce": ("sum, max, min, prod", r"\b(?:sum|max|min|prod)\("),
    "cumulative": ("cumulative_sum, _prod, _max, _min", r"\bcumulative_(?:sum|prod|max|min)\("),
    "place": ("dynamic_update", r"\bdynamic_update\("), "random": ("random_bits, uniform", r"\b(?:random_bits|uniform)(?:_like)?(?:<\w+>)?\("),
    "user": ("operation<F>", r"\b(?:soft|fma3|gcd)\("), "call": ("call<Op>, local<Op>", r"\b(?:call|local)<"),
    "carry": ("scan, repeat_times", r"\b(?:scan|repeat_times)\("), "until": ("repeat_until", r"\brepeat_until\("), "trips": ("cond", r"\bcond\("),
}
# Users do not write these: the recorder, the planner or derivatives make them.
INTERNAL = {"input", "constant", "iota", "identity", "barrier", "overlap", "merge_blocks", "each", "next", "last", "collect"}
# What moves if the dim is sharded, for each class.
DIVIDED = {
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
# Gradients of classes with one rule. Elementwise ops have their gradients in the table.
GRADIENT = {"contraction": "yes", "reduction": "yes", "remap": "yes", "gather": "to the table", "scatter": "to the rows", "view": "yes",
            "annotation": "yes", "call": "with your own rule", "source": "-", "cumulative": "yes", "sort": "yes", "loop": "yes"}
OWN_GRADIENT = {"stop_gradient": "stops", "user": "with your own entry", "complex": "no", "imag": "no", "argsort": "0", "until": "no"}
# Uneven extents are ordinary everywhere else.
UNEVEN = {"split": "gathered first", "merge": "gathered first, or elements move"}


def entries() -> list[tuple[str, str, str, bool]]:
    """Code, name, class and whether there is a derivative, of every op."""
    table = re.search(r"op_entries\[\] = \{\n(.*?)\n\};", read(HEADERS / "ops" / "table.hpp"), re.DOTALL).group(1)
    found = re.findall(r"^ *\{op::(\w+), \"(\w+)\", op_class::(\w+), \d+, linearity::\w+(, \{.*\})?\},$", table, re.MULTILINE)
    if len(found) != len(table.splitlines()):
        raise Wrong("ops/table.hpp: an entry has another form than {op::code, \"name\", op_class::class, arity, linearity[, {derivatives}]},")
    return [(code, name, what, bool(derivative)) for code, name, what, derivative in found]


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


def page() -> str:
    programs = sources()
    ops = [e for e in entries() if e[0] not in INTERNAL]
    lines = ["<!-- Generated by tests/readme/operations.py; do not edit. -->", "# Operations", "",
             "Every operation computes its result on any mesh and in any layout of operands and result. The",
             "[reference](reference.md) says what each operation means. The columns of the table:", "",
             *(wrapped(line, indent="  ", first="- ") for line in (
                 "*sharded*: what moves if the operation works along a sharded dim.",
                 "*uneven*: whether extents may be uneven, so that the last blocks are short or empty.",
                 "*gradient*: whether the operation has a gradient. If it is 0, no gradient flows through the operation.",
                 "*under MPI*: the files in tests/mpi that run the operation in a function. The random programs of `exchange_test` run many of them "
                 "too. The `cases_` files compare values and charged bytes on 8 ranks, for programs whose traffic was recorded from XLA.")), ""]
    order = list(DIVIDED)
    for code, _, what, _ in ops:
        if what not in DIVIDED:
            raise Wrong(f"op::{code} has class {what}, of which tests/readme/operations.py knows nothing")
    lines += ["| operation | written | gradient | sharded | uneven | under MPI |", "|---|---|---|---|---|---|"]
    for code, name, what, derivative in sorted(ops, key=lambda e: order.index(e[2])):
        written, pattern = WRITTEN.get(code, (name, rf"\b{name}(?:<[\w:]+>)?\("))
        gradient = OWN_GRADIENT.get(code) or ("yes" if derivative else "0" if what == "elementwise" else GRADIENT[what])
        spelled = ", ".join(f"`{w}`" for w in written.split(", "))
        lines.append(f"| {name} | {spelled} | {gradient} | {DIVIDED[what]} | {UNEVEN.get(code, 'yes')} | {tested(pattern, programs)} |")
    made = {name for _, name, _, _ in ops} | {"sum", "max", "min", "prod"}
    lines += ["", "## Composed functions", "", "These functions record several operations. Their gradients and communication are those of these operations.", "",
              "| function | header | under MPI |", "|---|---|---|"]
    lines += [f"| `{name}` | {header} | {tested(rf'{chr(92)}b{name}(?:<[{chr(92)}w:]+>)?{chr(92)}(', programs)} |"
              for name, header in functions() if name not in made and not name.startswith("cumulative_")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(generated_page.main(__file__, __doc__, PAGE, page))
