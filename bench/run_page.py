#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what the benchmarks of the run time measured into bench/RESULTS.md: a table of ratios, and a plot.

    cmake --workflow --preset bench
    python3 bench/run_page.py build/bench/results.jsonl --on "2 cores of ..., g++ 12.2, Open MPI 4.1.4"

The table replaces what is between the two comments in the page. The plot is bench/run-time.svg: one bar a row. The last
measurement of a name counts. Times of compiling are not in it; compile_page.py writes them. `--check` writes nothing
and fails where page and results differ.
"""
import argparse
import dataclasses
import html
import json
import math
import pathlib
import re
import sys
import textwrap

from report import round_trips

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "bench" / "RESULTS.md"
PLOT_NAME = "run-time.svg"
BEGIN, END = "<!-- run time: bench/run_page.py writes from here -->", "<!-- run time: to here -->"
CAPTION = "Time of Cleave divided by that of the reference, one bar a measurement"
PLACE = re.compile(r" on (\d+(?:x\d+)?)(?: ranks?)?$")

ROW, TOP, LEFT, WIDTH, BOTTOM = 14, 30, 400, 760, 24
FASTER, SLOWER = "#1f6fb2", "#b25a1f"


@dataclasses.dataclass
class Measured:
    """Rows of one name by where they ran: `1`, `2`, `2x1`, ..."""
    name: str
    reference: str
    by_place: dict[str, dict] = dataclasses.field(default_factory=dict)


def read(results: pathlib.Path) -> list[Measured]:
    found: dict[tuple[str, str], Measured] = {}
    for line in map(json.loads, results.read_text(encoding="utf-8").splitlines()):
        if "ratio" not in line or line["name"].startswith("compile: "):
            continue
        place = PLACE.search(line["name"])
        name = line["name"][:place.start()] if place else line["name"]
        row = found.setdefault((name, line["reference"]), Measured(name, line["reference"]))
        row.by_place[place.group(1) if place else "-"] = line
    if not found:
        sys.exit(f"{results} has no measurement of the run time")
    return list(found.values())


def order(place: str) -> tuple:
    return (math.prod(map(int, place.split("x"))), place) if place != "-" else (0, place)


def time_of(line: dict) -> str:
    value, unit = line["value"], line["unit"]
    if unit == "ms" and value < 0.1:
        value, unit = 1000 * value, "us"
    return f"{value:.3g} {unit}"


def share_of(line: dict) -> str:
    if "share" not in line:
        return ""
    return f"{100 * line['share']:.0f} % of {'triad' if 'gigabytes' in line else 'FMA'}"


def each(row: Measured, cell) -> str:
    return "; ".join(cell(row.by_place[p]) or "-" for p in sorted(row.by_place, key=order))


def table(rows: list[Measured], on: str) -> str:
    words = [f"Measured on {on}."] if on else []
    if trips := round_trips([line for row in rows for line in row.by_place.values()]):
        words.append(f"A cache line took {trips[0]:.0f} to {trips[1]:.0f} ns to another rank and back.")
    lines = [*textwrap.wrap(" ".join(words), 100), ""] if words else []
    lines += ["| | ranks or mesh | Cleave | of peak | reference | Cleave / reference |", "|---|---|---|---|---|---|"]
    for row in rows:
        shares = each(row, share_of)
        lines.append(f"| {row.name} | {'; '.join(sorted(row.by_place, key=order))} | {each(row, time_of)} | {shares.strip('-; ') and shares} "
                     f"| {row.reference} | {each(row, lambda line: format(line['ratio'], '.2f'))} |")
    return "\n".join(lines)


def plot(rows: list[Measured]) -> str:
    """Bars from 1 to the ratio on a logarithmic axis: to the left where Cleave is faster."""
    bars = [(f"{row.name}, {place}", row.by_place[place]) for row in rows for place in sorted(row.by_place, key=order)]
    ratios = [line["ratio"] for _, line in bars if line["ratio"] > 0]
    low, high = (math.log2(f(ratios)) for f in (min, max))
    low, high = min(math.floor(low), -1), max(math.ceil(high), 1)
    across = lambda ratio: LEFT + (math.log2(ratio) - low) / (high - low) * (WIDTH - LEFT - 50)
    height = TOP + ROW * len(bars) + BOTTOM
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
             'font-family="sans-serif" font-size="10">', f"<title>{CAPTION}</title>", f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             f'<text x="4" y="14" font-weight="bold">{CAPTION}; a line marks the limit</text>']
    for power in range(low, high + 1):
        x, label = across(2.0**power), f"{2.0**power:g}"
        drawn.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - BOTTOM + 4}" stroke="{"#666" if power == 0 else "#ddd"}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    for i, (label, line) in enumerate(bars):
        y, ratio = TOP + ROW * i, line["ratio"]
        drawn.append(f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end">{html.escape(label)}</text>')
        if ratio <= 0:
            continue
        start, end = sorted((across(1.0), across(ratio)))
        drawn.append(f'<rect x="{start:.1f}" y="{y + 1}" width="{max(end - start, 1):.1f}" height="{ROW - 4}" '
                     f'fill="{SLOWER if ratio > 1 else FASTER}"/>')
        drawn.append(f'<text x="{end + 4:.1f}" y="{y + 9}">{ratio:.2f}</text>')
        if "limit_ratio" in line:
            x = across(line["limit_ratio"])
            drawn.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + ROW - 2}" stroke="black"/>')
    return "\n".join([*drawn, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="what the benchmarks wrote")
    parser.add_argument("--on", default="", help="the machine and the software, for the sentence above the table")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE, help="the page, if it is another one; the plot goes beside it")
    options = parser.parse_args()
    rows = read(options.results)
    page = options.page.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{options.page.name} lacks the comments between which the table is")
    written = {options.page: f"{before}{BEGIN}\n\n{table(rows, options.on)}\n\n![{CAPTION}]({PLOT_NAME})\n\n{END}{after}",
               options.page.parent / PLOT_NAME: plot(rows)}
    differ = [path.name for path, text in written.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if options.check:
        sys.exit(f"not as measured: {', '.join(differ)}" if differ else 0)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    print(f"written: {', '.join(differ) or 'nothing new'}")


if __name__ == "__main__":
    main()
