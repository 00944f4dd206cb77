#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what compile_time.py measured into bench/RESULTS.md: its table, and the plot beside it.

    python3 bench/compile_time.py RESULTS.jsonl --build build/bench
    python3 bench/compile_page.py RESULTS.jsonl

The table replaces what is between the two comments in the page. The plot is bench/compile-time.svg. The last measurement
of a name counts. `--check` writes nothing and fails where page and results differ.
"""
import argparse
import html
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "bench" / "RESULTS.md"
PLOT = ROOT / "bench" / "compile-time.svg"
BEGIN, END = "<!-- compile time: bench/compile_page.py writes from here -->", "<!-- to here -->"
CAPTION = "CPU seconds and peak memory of the compiler against nodes, layers and devices"
PREFIX, MEMORY = "compile: ", ", memory"

WIDTH, HEIGHT = 250, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 44, 40
SECONDS, MEGABYTES = "#1f6fb2", "#b25a1f"


class Measured:
    """Seconds and MB of each program, and the same as series: by name, at which size how much."""

    def __init__(self, results: pathlib.Path) -> None:
        self.programs: dict[str, dict[str, dict]] = {}
        self.series: dict[str, dict[int, dict[str, float]]] = {}
        for line in map(json.loads, results.read_text(encoding="utf-8").splitlines()):
            if not line["name"].startswith(PREFIX):
                continue
            name = line["name"].removeprefix(PREFIX)
            unit = line["unit"]
            if "series" in line:
                self.series.setdefault(line["series"], {}).setdefault(line["at"], {})[unit] = line["value"]
            else:
                self.programs.setdefault(name.removesuffix(MEMORY), {})[unit] = line
        if not self.programs:
            sys.exit(f"{results} has no measurement of compiling")


def cell(line: dict | None, digits: int) -> str:
    if line is None:
        return ""
    limit = f" (at most {line['limit']:g})" if "limit" in line else ""
    return f"{round(line['value'], digits) + 0.0:.{digits}f}{limit}" # no minus before a zero


def table(measured: Measured) -> str:
    rows = ["| | CPU seconds | MB |", "|---|---|---|"]
    for name, values in measured.programs.items():
        seconds = values.get("s")
        digits = 2 if seconds is not None and seconds["value"] < 1 else 1
        rows.append(f"| {name} | {cell(seconds, digits)} | {cell(values.get('MB'), 0)} |")
    for name, values in measured.series.items():
        sizes = sorted(values)
        rows.append(f"| {name}: {', '.join(f'{s:,}' for s in sizes)} | {', '.join(format(values[s]['s'], '.1f') for s in sizes)} "
                    f"| {', '.join(format(values[s]['MB'], '.0f') for s in sizes)} |")
    return "\n".join(rows)


def nice_top(largest: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... above a number."""
    power = 10 ** math.floor(math.log10(largest))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= largest)


def panel(name: str, values: dict[int, dict[str, float]], x0: int, top_seconds: float, top_megabytes: float) -> list[str]:
    """One diagram: sizes on a logarithmic axis, seconds as circles and MB as squares, each from 0."""
    sizes = sorted(values)
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    base = TOP + inner_height
    across = lambda size: x0 + LEFT + (math.log(size) - low) / (high - low or 1) * inner_width
    up = lambda value, top: base - value / top * inner_height
    drawn = [f'<text x="{x0 + LEFT}" y="{TOP - 14}" font-weight="bold">{html.escape(name)}</text>']
    for part in (0, 0.5, 1):
        y = base - part * inner_height
        drawn.append(f'<line x1="{x0 + LEFT}" y1="{y:.1f}" x2="{x0 + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ccc"/>')
        drawn.append(f'<text x="{x0 + LEFT - 4}" y="{y - 1:.1f}" text-anchor="end" fill="{SECONDS}">{part * top_seconds:g} s</text>')
        drawn.append(f'<text x="{x0 + LEFT - 4}" y="{y + 10:.1f}" text-anchor="end" fill="{MEGABYTES}">{part * top_megabytes / 1000:g} GB</text>')
    for size in sizes:
        drawn.append(f'<text x="{across(size):.1f}" y="{base + 24}" text-anchor="middle">{size:,}</text>')
    for unit, top, colour in (("s", top_seconds, SECONDS), ("MB", top_megabytes, MEGABYTES)):
        points = [(across(s), up(values[s][unit], top)) for s in sizes]
        drawn.append(f'<polyline fill="none" stroke="{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        for x, y in points:
            drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' if unit == "s" else
                         f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{colour}"/>')
    return drawn


def plot(measured: Measured) -> str:
    if not measured.series:
        sys.exit("the results have no series to plot")
    everything = [v for values in measured.series.values() for v in values.values()]
    top_seconds, top_megabytes = nice_top(max(v["s"] for v in everything)), nice_top(max(v["MB"] for v in everything))
    width = WIDTH * len(measured.series)
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
             'font-family="sans-serif" font-size="10">',
             '<title>What compiling costs: CPU seconds and peak memory of the compiler</title>',
             f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
             f'<text x="4" y="14" fill="{SECONDS}">&#9679; CPU seconds</text>',
             f'<text x="90" y="14" fill="{MEGABYTES}">&#9632; peak memory</text>']
    for i, (name, values) in enumerate(measured.series.items()):
        drawn += panel(name, values, i * WIDTH, top_seconds, top_megabytes)
    return "\n".join([*drawn, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="what compile_time.py wrote")
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    measured = Measured(options.results)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        sys.exit(f"{PAGE.name} lacks the comments between which the table is")
    written = {PAGE: f"{before}{BEGIN}\n\n{table(measured)}\n\n![{CAPTION}]({PLOT.name})\n\n{END}{after}", PLOT: plot(measured)}
    differ = [path.name for path, text in written.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if options.check:
        sys.exit(f"not as measured: {', '.join(differ)}" if differ else 0)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    print(f"written: {', '.join(differ) or 'nothing new'}")


if __name__ == "__main__":
    main()
