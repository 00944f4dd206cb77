#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares numbers that runs of one program logged, step by step: a layout or a schedule must not change them."""
import argparse
import csv
import pathlib
import sys


def column_of(path: pathlib.Path, column: str) -> list[float]:
    with path.open(encoding="utf-8", newline="") as lines:
        return [float(row[column]) for row in csv.DictReader(lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=pathlib.Path, nargs="+", help="CSV files; others are compared with the first")
    parser.add_argument("--column", default="loss", help="the column that is compared (loss, which must also fall)")
    parser.add_argument("--within", type=float, required=True, help="the largest relative difference that is allowed")
    parser.add_argument("--last", action="store_true", help="compare as many of the last steps of the first log as another one has")
    options = parser.parse_args()
    if len(options.logs) < 2:
        parser.error("there is nothing to compare with")

    first = column_of(options.logs[0], options.column)
    fine = len(first) > 1 and (options.column != "loss" or first[-1] < first[0])
    if not fine:
        print(f"{options.logs[0].name}: nothing was learnt")
    for log in options.logs[1:]:
        other = column_of(log, options.column)
        wanted = first[-len(other):] if options.last and other else first
        if len(other) != len(wanted):
            print(f"{log.name}: {len(other)} steps, expected {len(wanted)}")
            fine = False
            continue
        apart = [abs(a - b) / abs(a) if a != b else 0.0 for a, b in zip(wanted, other)]
        print(f"{log.name}: {max(apart):.1e} from {options.logs[0].name} at most, in step {apart.index(max(apart)) + 1}")
        fine = fine and all(off <= options.within for off in apart)  # max() passes over NaN
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
