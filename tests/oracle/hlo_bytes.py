# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the collectives of a compiled HLO module move, in bytes per device, and the flops of its products.

Charges, for groups of n devices: all-gather (n-1)/n of the result; reduce-scatter and all-to-all (n-1)/n of the operand; all-reduce
2(n-1)/n of the operand; collective-permute the operand; loop bodies times their trips; of a conditional the dearest branch; a collective
over one device nothing. `scattered` charges an all-reduce as a reduce-scatter where each device only takes its own slice of the result:
CPU pipelines have no pass that writes it so.
"""
import re
from math import prod

WIDTHS = dict(pred=1, s8=1, u8=1, s16=2, u16=2, f16=2, bf16=2, s32=4, u32=4, f32=4, s64=8, u64=8, f64=8, c64=8, c128=16, token=0)
MOVES = {"all-gather": 1, "all-reduce": 2, "reduce-scatter": 1, "all-to-all": 1, "collective-permute": 1, "ragged-all-to-all": 1}
# What hands on all elements of its operand, or a part that a device takes for itself.
PASSING = {"bitcast", "copy", "convert", "transpose", "reshape", "tuple", "get-tuple-element"}


class Instruction:
    def __init__(self, name, shapes, op, operands, rest, root):
        self.name, self.shapes, self.op, self.operands, self.rest, self.root = name, shapes, op, operands, rest, root

    def elements(self):
        return sum(prod(extents) for _, extents in self.shapes)

    def bytes(self):
        return sum(WIDTHS[t] * prod(extents) for t, extents in self.shapes)


def shapes_in(text):
    return [(t, [int(n) for n in extents.split(",") if n]) for t, extents in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", text) if t in WIDTHS]


def closing(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("unbalanced brackets: " + text[:80])


def computations(text):
    """Instructions by name, by computation; the name of the entry computation."""
    found, current, entry = {}, None, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$", line)
        if head:
            current = found.setdefault(head[2], {})
            entry = head[2] if head[1] else entry
            continue
        body = re.match(r"\s+(ROOT )?%?([\w.\-]+) = (.*)$", line)
        if current is None or not body:
            continue
        rest = re.sub(r"/\*.*?\*/", "", body[3])
        end = closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
        shape, rest = rest[:end], rest[end:].lstrip()
        op = rest[:rest.index("(")]
        last = closing(rest, len(op))
        arguments = rest[len(op) + 1:last]
        current[body[2]] = Instruction(body[2], shapes_in(shape), op, re.findall(r"%([\w.\-]+)", arguments), rest[last + 1:], bool(body[1]))
        if op == "parameter":
            current[body[2]].number = int(arguments)
    return found, entry


def group_size(rest, devices):
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", rest)
    if listed:
        return len(listed[1].split(","))
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]", rest)
    if iota:
        return int(iota[2])
    named = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\S*)? \{([^}]*)\}", rest)
    if named:
        sizes = dict((k, int(v)) for k, v in re.findall(r"'([^']+)'=(\d+)", named[1]))
        return prod(int(part) if part else sizes[axis] for axis, part in re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", named[2]))
    if "replica_groups={}" in rest or "replica_groups" not in rest:
        return devices
    raise ValueError("unknown groups: " + rest[:120])


class Module:
    def __init__(self, text, devices):
        self.all, self.entry = computations(text)
        self.devices = devices

    def called(self, i, key):
        found = re.search(key + r"=%?([\w.\-]+)", i.rest)
        return found[1] if found else None

    def only_sliced(self, computation, name, most):
        """Whether all that is read of a value are slices of at most `most` elements that a device takes at a place of its own."""
        readers = [i for i in self.all[computation].values() if name in i.operands]
        if not readers or self.all[computation][name].root:
            return False
        for i in readers:
            if i.op == "dynamic-slice" and i.operands[0] == name:
                if i.elements() > most:
                    return False
            elif i.op in PASSING:
                if not self.only_sliced(computation, i.name, most):
                    return False
            elif i.op in ("fusion", "call"):
                inner = self.called(i, "calls" if i.op == "fusion" else "to_apply")
                places = [k for k, o in enumerate(i.operands) if o == name]
                for p in self.all[inner].values():
                    if p.op != "parameter" or p.number not in places:
                        continue
                    if not self.only_sliced(inner, p.name, most):
                        return False
            else:
                return False
        return True

    def moved(self, computation, i):
        """Bytes as they are, and with a reduce-scatter where one would do."""
        op = i.op.removesuffix("-start")
        if op not in MOVES:
            return 0, 0
        operands = sum(self.all[computation][o].bytes() for o in i.operands)
        if op == "collective-permute":
            listed = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", i.rest)
            pairs = re.findall(r"\{(\d+),(\d+)\}", listed[1])
            return (operands,) * 2 if any(a != b for a, b in pairs) else (0, 0)
        n = group_size(i.rest, self.devices)
        if n == 1:
            return 0, 0
        size = operands * n if op == "all-gather" else operands
        plain = MOVES[op] * (n - 1) * size // n
        if op != "all-reduce":
            return plain, plain
        elements = sum(self.all[computation][o].elements() for o in i.operands)
        if len(i.operands) == 1:
            return plain, plain // 2 if self.only_sliced(computation, i.name, elements // n) else plain
        # A tuple of several: each by itself.
        scattered = 0
        for k, o in enumerate(i.operands):
            part = self.all[computation][o]
            parts = [j for j in self.all[computation].values()
                     if j.op == "get-tuple-element" and i.name in j.operands and re.search(rf"index={k}\b", j.rest)]
            sliced = parts and all(self.only_sliced(computation, j.name, part.elements() // n) for j in parts)
            scattered += (1 if sliced else 2) * (n - 1) * part.bytes() // n
        return plain, scattered

    def trips(self, i):
        known = re.search(r'known_trip_count\\?":\{\\?"n\\?":\\?"(\d+)', i.rest)
        if not known:
            raise ValueError("a loop without a known number of trips")
        return int(known[1])

    def total(self, computation=None):
        """Bytes, bytes with reduce-scatters, flops of products."""
        computation = computation or self.entry
        sums = [0, 0, 0]
        for i in self.all[computation].values():
            times, inner = 1, []
            if i.op == "while":
                inner = [self.called(i, "body")]
                times = self.trips(i) if any(self.total(inner[0])) else 0
            elif i.op in ("fusion", "call", "async-start"):
                inner = [self.called(i, "calls") or self.called(i, "to_apply")]
            elif i.op == "conditional":
                branches = re.search(r"branch_computations=\{([^}]*)\}", i.rest)
                names = re.findall(r"%([\w.\-]+)", branches[1]) if branches else [
                    self.called(i, "true_computation"), self.called(i, "false_computation")]
                inner = [max(names, key=self.total)]
            for name in inner:
                sums = [a + times * b for a, b in zip(sums, self.total(name))]
            plain, scattered = self.moved(computation, i)
            sums[0] += plain
            sums[1] += scattered
            if i.op == "dot":
                left = self.all[computation][i.operands[0]].shapes[0][1]
                over = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", i.rest)
                sums[2] += 2 * i.elements() * prod(left[int(d)] for d in over[1].split(",") if d) if over and over[1] else 0
        return tuple(sums)
