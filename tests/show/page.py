#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if Chromium shows the page of a plan without errors, with the numbers of the plan, and if its search and its filters leave the steps
that they should. The program writes the page to standard output, with --json the plan."""
import argparse
import collections
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def grouped(number: int) -> str:
    return f"{number:,}"


def scaled(number: float, units: list[tuple[float, str]]) -> str:
    """With the largest unit that it is at least one of, to four digits."""
    size, name = next((unit for unit in units if number >= unit[0]), units[-1])
    return f"{float(f'{number / size:.4g}'):g} {name}"


def of_program(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout


def tables(dom: str) -> list[list[list[str]]]:
    """The cells of each row of each table."""
    rows = [re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL) for table in re.findall(r"<table[^>]*>(.*?)</table>", dom, re.DOTALL)]
    return [[[html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)] for row in table] for table in rows]


class Browser:
    def __init__(self, chromium: str, folder: str):
        self.chromium, self.folder, self.wrong = chromium, pathlib.Path(folder), []

    def dom(self, page: str) -> str:
        """The page after its scripts."""
        file = self.folder / "plan.html"
        file.write_text(page, encoding="utf-8")
        shown = subprocess.run([self.chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}", "--enable-logging=stderr",
                                "--virtual-time-budget=5000", "--dump-dom", file.as_uri()], capture_output=True, text=True, check=True, timeout=200)
        self.wrong += [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
        return shown.stdout


def wrong_numbers(plan: dict, dom: str) -> list[str]:
    wrong = []
    steps, name_of = plan["steps"], [array["name"] for array in plan["arrays"]]
    text = html.unescape(dom)
    if f'data-ready="{len(steps)}"' not in dom:
        wrong.append("the script of the page did not reach its end")
    for name in ("bytes", "messages", "flops", "passes", "bytes_read", "bytes_written"):
        if f"<b>{grouped(plan[name])}</b>" not in text:
            wrong.append(f"the page does not show {name} = {grouped(plan[name])}")
    binary = [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")]
    for name in ("arguments", "results", "workspace"):
        if f"<b>{scaled(plan[name], binary)}</b><span>{name}</span>" not in text:
            wrong.append(f"the page does not show {name} = {scaled(plan[name], binary)}")
    time = scaled(plan["seconds"], [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])
    if f"<b>{time}</b><span>on {plan['machine']}</span>" not in text:
        wrong.append(f"the page does not show {time}")
    collectives, step_rows, loops, arrays = ([*rows[1:]] for rows in tables(dom))
    for row, (i, step) in zip(step_rows, enumerate(steps)):
        numbers = [grouped(step[name]) for name in ("bytes_read", "bytes_written", "bytes_moved", "times")]
        place = f"{step['file']}:{step['line']}" if step["file"] else ""
        names = [", ".join(name_of[a] for a in step["reads"]), name_of[step["writes"]]]
        if row[0] != str(i) or row[2] != f"{step['operation']} {place}" or row[3:5] != names or row[6:] != numbers:
            wrong.append(f"the row of step {i} is {row}")
    moved, of_loop = collections.Counter(), collections.defaultdict(lambda: [0, 0, 0, 0, 0])
    for step in steps:
        if step["communicates"]:
            moved[step["collective"], step["axes"], "in loops" if step["loop"] else ""] += step["times"] * step["bytes_moved"]
        counts = (1, step["bytes_read"], step["bytes_written"], step["bytes_moved"], step["flops"])
        of_loop[step["loop"]] = [sum + step["times"] * n for sum, n in zip(of_loop[step["loop"]], counts)]
    if {(*row[:3],): row[4] for row in collectives} != {key: grouped(n) for key, n in moved.items()}:
        wrong.append(f"the collectives are {collectives}")
    if {row[0]: row[2:7] for row in loops} != {str(loop or "outside"): [grouped(n) for n in counts] for loop, counts in of_loop.items()}:
        wrong.append(f"the loops are {loops}")
    if sorted(row[:4] for row in arrays) != sorted([a["name"], a["type"], a["role"], grouped(a["bytes"])] for a in plan["arrays"]):
        wrong.append(f"the arrays are {arrays}")
    for chart, bars in (("memory", 2 * len(steps)),
                        ("timeline", sum((s["end"] > s["begin"]) + (s["network_end"] > s["network_begin"]) for s in steps))):
        drawn = re.search(rf'<div id="{chart}">(.*?)</div>', dom, re.DOTALL).group(1).count("<rect")
        if drawn != bars:
            wrong.append(f"{chart} has {drawn} bars, not {bars}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    page, plan = of_program(arguments.command), json.loads(of_program([*arguments.command, "--json"]))
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(arguments.chromium, folder)
        wrong = wrong_numbers(plan, browser.dom(page))
        if json.loads(re.search(r'id="plan">(.*?)</script>', page, re.DOTALL).group(1)) != plan:
            wrong.append("the JSON of the page is another one than that of the plan")
        # What a reader types and clicks, and the steps that stay.
        steps = plan["steps"]
        line, kind = next(s for s in steps if s["communicates"])["line"], steps[0]["pass"]
        for script, stay in ((f"el('search').value = ':{line}'", lambda s: s["line"] == line), ("el('search').value = 'no such word'", lambda s: False),
                             (f"el('kind').value = '{kind}'", lambda s: s["pass"] == kind), ("el('only').checked = true", lambda s: s["communicates"])):
            act = f"<script>{script}; el('controls').dispatchEvent(new Event('input'));</script></body>"
            rows = re.findall(r'<tr class="step"([^>]*)>', browser.dom(page.replace("</body>", act)))
            if [i for i, row in enumerate(rows) if "none" not in row] != [i for i, s in enumerate(steps) if stay(s)]:
                wrong.append(f"other steps stay after {script}")
        wrong += browser.wrong
    print("\n".join(wrong) or f"{len(steps)} steps are shown")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
