#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints results.jsonl as a table, with shares of what the machine can do, and checks the limits.

    python3 bench/report.py RESULTS.jsonl [--report-only]

Fails if a measurement is above its limit. Measurements that are known to be above their limits are listed with the
reason, and fail only if they become worse than what bench/RESULTS.md records of them. With --report-only it never
fails: on a machine that others use, or on which nobody recorded anything, a ratio says little.
"""
import argparse
import dataclasses
import json
import pathlib
import sys

# What every limit on a time may be exceeded by. Ratios of one program differ by about 0.03 from run to run on a quiet
# machine.
NOISE = 1.05

# Above the limit today: the ratio that bench/RESULTS.md records, and why. Whoever makes one faster takes it off.
ROOTS = "by hand, roots and quotients are approximations (-ffast-math)"
BUFFER = "rows are computed in a buffer and copied; the plate is in the caches, so that memory does not hide it"
PAGES = "varies with the pages of a cache: by hand, the larger caches take 0.83 to 0.98 of the smallest one's time"
PLACES = "varies with the placement of the cores"
ONCE = "where cores share a cache, MPI copies once; within its limit in other runs"
SENT = "rows are packed, sent and unpacked; by hand they are read in a window of MPI"
PETSC = "the limit is half of PETSc's time"
KNOWN = {
    "64^2 sum on 2 ranks": (2.6, "the cost of a call, against a loop of 2,048 additions"),
    "decode step, 512 positions used of a cache of 128 MiB, against 16 MiB on 1 rank": (1.21, PAGES),
    "decode step, 512 positions used of a cache of 1024 MiB, against 16 MiB on 1 rank": (1.18, PAGES),
    "decode step, 512 positions used of a cache of 1024 MiB, against 16 MiB on 2 ranks": (1.18, PAGES),
    "Jacobi sweep, u = sweep(u), 256^2 on 1 rank": (1.76, BUFFER),
    "Jacobi sweep, u = sweep(u), 256^2 on 2 ranks": (1.51, BUFFER),
    "ten operations in place on 1 rank": (1.2, ROOTS),
    "ten operations in place on 2 ranks": (1.2, ROOTS),
    "gather, 20000 rows of 512 on 2 ranks": (1.34, PLACES),
    "gather from a sharded table, 1000000 rows of 1 on 2 ranks": (2.34, SENT),
    "scatter_add to a sharded table, 1000000 rows of 1 on 2 ranks": (2.03, SENT),
    "gather from a sharded table, 20000 rows of 512 on 2 ranks": (1.63, SENT),
    "sparse product (COO) by gather and scatter_add on 2 ranks": (1.68, "three passes, a look-up, a product and a sum, against one loop; 1.33 to 1.68"),
    "Fourier transform against FFTW-MPI of 256^3 on 2 ranks": (0.8, "0.62 and 0.63 in the last two runs; not explained: four plans of FFTW differ by 2 %"),
    "Fourier transform against FFTW-MPI, transposed output, of 256^3 on 2 ranks": (0.79, "0.66 and 0.67 in the last two runs; not explained: four plans of FFTW differ by 2 %"),
    "heat, 7-point, 256^3 on 1 rank": (0.59, PETSC),
    "heat, 7-point, 256^3 on 2 ranks": (0.57, PETSC),
    "2048^2 product, reduce-scatter, against JAX on 2 ranks": (0.96, "JAX takes 1.05 times as long here; the limit asks for 1.33"),
    "4096^2 reshard, against JAX on 2 ranks": (1.06, "0.86 where cores share a cache; at the bandwidth of the triad it would be 0.65 there"),
    "ten operations in place, against JAX on 2 ranks": (1.2, "0.94 and 0.95 in other runs; JAX has a process of its own, so that both are not measured at once"),
    "64^2 product, all-reduce, against JAX on 2 ranks": (0.05, "a call of JAX takes 0.11 ms"),
    "64^2 product, reduce-scatter, against JAX on 2 ranks": (0.07, "0.04 where cores share a cache"),
    "mlp training step, against JAX on 1x2": (0.96, "JAX takes 1.06 times as long here; the limit asks for 1.25"),
    "message to a neighbour, 1 MiB on 2 ranks": (1.24, ONCE),
    "message to a neighbour, 16 MiB on 2 ranks": (1.18, ONCE),
    "reshard, all-to-all, 64 KiB on 2 ranks": (1.17, "0.12 to 0.58 in other runs; not explained"),
}


@dataclasses.dataclass
class Row:
    """A measurement: what is compared with its limit, and what it may be."""
    line: dict
    limit: float | None = None
    compared: float | None = None
    shown: str = ""

    def __post_init__(self) -> None:
        line = self.line
        if "limit_ratio" in line:
            self.limit, self.compared, self.shown = line["limit_ratio"], line["ratio"], f"{line['limit_ratio']:g}"
        if "limit" in line:
            self.limit, self.compared, self.shown = line["limit"], line["value"], f"{line['limit']:g} {line['unit']}"
        if "limit_least" in line:
            # What is not hidden is compared, so that less is better.
            self.limit, self.compared, self.shown = 1 - line["limit_least"], 1 - line["value"], f"at least {line['limit_least']:g}"
        if "limit_above" in line:
            self.limit, self.compared = line["limit_above"], line["value"] - line["reference_value"]
            self.shown = f"+{line['limit_above']:g} {line['unit']}"

    @property
    def name(self) -> str:
        return self.line["name"]

    @property
    def known(self) -> bool:
        return self.name in KNOWN and "limit_ratio" in self.line

    @property
    def recorded(self) -> float | None:
        return KNOWN[self.name][0] if self.known else None

    def exceeds(self, bound: float) -> bool:
        # Memory is the same in every run.
        return self.compared > bound * (1 if self.line["unit"] == "MB" else NOISE)

    @property
    def above(self) -> bool:
        return self.limit is not None and self.exceeds(self.limit)

    @property
    def fails(self) -> bool:
        if not self.above:
            return False
        return not self.known or self.exceeds(max(self.limit, self.recorded))

    def words(self) -> str:
        if self.fails:
            return "  WORSE THAN RECORDED" if self.known else "  ABOVE"
        return "  above, as known" if self.above else ""


def share_of(line: dict) -> str:
    """What the row reaches, and its share of the peak of the machine."""
    for key, unit in (("gflops", "GFLOP/s"), ("gigabytes", "GB/s")):
        if key in line:
            share = f"{100 * line['share']:4.0f} %" if "share" in line else ""
            return f"{line[key]:.4g} {unit:<7} {share}"
    return ""


def print_rows(rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    print(f"\n{'':<{width}} {'value':>10} {'':<3} {'reference':>10} {'ratio':>7}  {'reached, of peak':<22}  limit")
    for row in rows:
        line = row.line
        reference, ratio = line.get("reference_value"), line.get("ratio")
        print(f"{row.name:<{width}} {line['value']:>10.4g} {line['unit']:<3} {'' if reference is None else format(reference, '.4g'):>10} "
              f"{'' if ratio is None else format(ratio, '.3f'):>7}  {share_of(line):<22}  {row.shown}{row.words()}")


def round_trips(lines: list[dict]) -> tuple[float, float] | None:
    """The least and the most nanoseconds that a cache line took to another rank and back."""
    found = [line["round_trip_ns"] for line in lines if line.get("round_trip_ns", 0) > 0]
    return (min(found), max(found)) if found else None


def print_known(rows: list[Row]) -> None:
    known = [row for row in rows if row.known]
    if not known:
        return
    width = max(len(row.name) for row in known)
    print(f"\nKnown to be above their limits:\n{'':<{width}} {'limit':>6} {'recorded':>9} {'ratio':>7}  why")
    for row in known:
        now = "" if row.exceeds(row.limit) else "  (within its limit in this run)"
        print(f"{row.name:<{width}} {row.limit:>6g} {row.recorded:>9g} {row.compared:>7.3f}  {KNOWN[row.name][1]}{now}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--report-only", action="store_true", help="never fail")
    options = parser.parse_args()
    rows = [Row(json.loads(line)) for line in options.results.read_text(encoding="utf-8").splitlines()]
    if not rows:
        sys.exit(f"{options.results} has no measurements")
    print_rows(rows)
    if trips := round_trips([row.line for row in rows]):
        print(f"\nA cache line took {trips[0]:.0f} to {trips[1]:.0f} ns to another rank and back.")
    print_known(rows)
    failed = [row for row in rows if row.fails]
    limited = sum(row.limit is not None for row in rows)
    print(f"\nbench: {limited} measurements with a limit, {sum(row.above for row in rows)} more than {NOISE:g} times above it, "
          f"{len(failed)} of these not known or worse than recorded")
    for row in failed:
        bound = row.shown if not row.known else f"{row.recorded:g}, as recorded"
        print(f"  {row.name}: {row.compared:.3f}, at most {bound}")
    sys.exit(1 if failed and not options.report_only else 0)


if __name__ == "__main__":
    main()
