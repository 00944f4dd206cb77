#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/08-operations.md: every operation, its gradient, what divided dims cost, and the tests that run it under MPI.

Operations, classes and the derivatives of elementwise ones come from ops/table.hpp, functions made of them from expr/ and linalg/,
tests from the names in the functions of tests/mpi. What holds for a whole class stands here. With --check nothing is
written: the page must be up to date.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import generated_page  # noqa: E402
from generated_page import ROOT, Wrong, read  # noqa: E402

HEADERS = ROOT / "include" / "cleave"
TESTS = ROOT / "tests" / "mpi"
PAGE = ROOT / "docs" / "08-operations.md"

# How an op is written where not by its name, and what finds it in a program.
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
# Not written by users: made by the recorder, by the planner or by derivatives.
INTERNAL = {"input", "constant", "iota", "identity", "barrier", "overlap", "merge_blocks", "each", "next", "last", "collect"}
# Along a divided dim, for a class.
DIVIDED = {
    "source": "nothing moves",
    "elementwise": "nothing moves",
    "contraction": "a contracted dim leaves a partial sum",
    "reduction": "a reduced dim leaves a partial value",
    "call": "dims named in `whole` are gathered",
    "remap": "elements that a device lacks, in one exchange",
    "gather": "places out, rows back",
    "scatter": "partial tables, or rows to their places",
    "scan": "one value a slice",
    "loop": "a dim that a loop runs along is gathered",
    "view": "nothing moves where blocks nest",
    "annotation": "what the layout asks",
}
# Gradients of the classes that have one rule; elementwise ops have theirs in the table.
GRADIENT = {"contraction": "yes", "reduction": "yes", "remap": "yes", "gather": "by the table", "scatter": "by the rows", "view": "yes",
            "annotation": "yes", "call": "with a rule of yours", "source": "-", "scan": "yes", "loop": "yes"}
OWN_GRADIENT = {"stop_gradient": "stops", "user": "with an entry of yours", "complex": "no", "imag": "no", "sort": "yes", "argsort": "0", "until": "no"}
OWN_DIVIDED = {"sort": "elements to their ranks, in one exchange", "argsort": "elements to their ranks, in one exchange"}
# Extents that do not divide are ordinary everywhere else.
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
            for name in re.findall(r"^constexpr (?:value|std::pair<value, value>) (\w+)\((?:operand|dim_ref|const value&)", text, re.MULTILINE):
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
             "Every operation computes its result on any mesh, in any layout of operands and result. What each means is in the headers;",
             "*divided* says what moves where a dim that it works along is divided, *uneven* whether extents may leave remainders, *under",
             "MPI* which files of tests/mpi run it in a function, beside the random programs of exchange. Those called cases compare values",
             "and charged bytes on 8 ranks, of programs whose traffic was recorded from XLA. A gradient of 0 flows nowhere.", ""]
    order = list(DIVIDED)
    for code, _, what, _ in ops:
        if what not in DIVIDED:
            raise Wrong(f"op::{code} has class {what}, of which tests/readme/operations.py knows nothing")
    lines += ["| operation | written | gradient | divided | uneven | under MPI |", "|---|---|---|---|---|---|"]
    for code, name, what, derivative in sorted(ops, key=lambda e: order.index(e[2])):
        written, pattern = WRITTEN.get(code, (name, rf"\b{name}(?:<[\w:]+>)?\("))
        gradient = OWN_GRADIENT.get(code) or ("yes" if derivative else "0" if what == "elementwise" else GRADIENT[what])
        spelled = ", ".join(f"`{w}`" for w in written.split(", "))
        lines.append(f"| {name} | {spelled} | {gradient} | {OWN_DIVIDED.get(code, DIVIDED[what])} | {UNEVEN.get(code, 'yes')} | {tested(pattern, programs)} |")
    made = {name for _, name, _, _ in ops} | {"sum", "max", "min", "prod"}
    lines += ["", "## Functions made of them", "", "Gradients and what moves are those of the operations that they record.", "",
              "| function | header | under MPI |", "|---|---|---|"]
    lines += [f"| `{name}` | {header} | {tested(rf'{chr(92)}b{name}(?:<[{chr(92)}w:]+>)?{chr(92)}(', programs)} |"
              for name, header in functions() if name not in made and not name.startswith("cumulative_")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(generated_page.main(__file__, __doc__, PAGE, page))
