#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints results.jsonl as a table, and which measurements are above their limits."""
import json
import pathlib
import sys


def main() -> None:
    lines = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    width = max(len(line["name"]) for line in lines)
    print(f"\n{'':<{width}} {'value':>10} {'':<3} {'reference':>10} {'ratio':>7}  limit")
    limited = above = 0
    for line in lines:
        reference, ratio = line.get("reference_value"), line.get("ratio")
        limit = passed = ""
        if "limit_ratio" in line:
            limit, passed = f"{line['limit_ratio']:g}", ratio <= line["limit_ratio"]
        if "limit" in line:
            limit, passed = f"{line['limit']:g} {line['unit']}", line["value"] <= line["limit"]
        if "limit_above" in line:
            limit, passed = f"+{line['limit_above']:g} {line['unit']}", line["value"] - reference <= line["limit_above"]
        if limit:
            limited += 1
            above += not passed
            limit += "" if passed else "  ABOVE"
        print(f"{line['name']:<{width}} {line['value']:>10.4g} {line['unit']:<3} {'' if reference is None else format(reference, '.4g'):>10} "
              f"{'' if ratio is None else format(ratio, '.3f'):>7}  {limit}")
    print(f"\nbench: {limited} measurements with a limit, {above} above it")


if __name__ == "__main__":
    main()
