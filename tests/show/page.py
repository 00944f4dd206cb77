#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if Chromium shows the page of a plan without errors, with a row for each step and the numbers of the plan. The program writes the
page to standard output."""
import argparse
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    page = subprocess.run(arguments.command, capture_output=True, text=True, check=True, timeout=100).stdout
    plan = json.loads(re.search(r'id="plan">(.*?)</script>', page, re.DOTALL).group(1))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "plan.html")
        file.write_text(page, encoding="utf-8")
        shown = subprocess.run([arguments.chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--enable-logging=stderr",
                                "--virtual-time-budget=5000", "--dump-dom", file.as_uri()], capture_output=True, text=True, check=True, timeout=200)
    wrong = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    dom = html.unescape(shown.stdout)
    if f'data-ready="{len(plan["steps"])}"' not in dom:
        wrong.append("the script of the page did not reach its end")
    if dom.count('<tr class="step"') != len(plan["steps"]):
        wrong.append("the page has not one row for each step")
    for name in ("bytes", "messages", "flops", "passes", "bytes_read", "bytes_written"):
        if f"<b>{plan[name]:,}</b>" not in dom:
            wrong.append(f"the page does not show {name} = {plan[name]:,}")
    for array in plan["arrays"]:
        if array["type"] not in dom or array["name"] not in dom:
            wrong.append(f"the page does not show {array['name']}")
    print("\n".join(wrong) or f"{len(plan['steps'])} steps are shown")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
