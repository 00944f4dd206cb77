#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether bench/run_page.py writes a table and a plot from results, between its marks and nowhere else."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import run_page  # noqa: E402

ROWS = [
    {"name": "a < b on 1 rank", "value": 1.0, "unit": "ms", "reference": "hand-written", "ratio": 1.5, "limit_ratio": 1.1, "gigabytes": 20.0, "share": 0.25},
    {"name": "a < b on 2 ranks", "value": 0.5, "unit": "ms", "reference": "hand-written", "ratio": 0.9, "limit_ratio": 1.1, "gigabytes": 40.0, "share": 0.5},
    {"name": "a < b on 2 ranks", "value": 0.4, "unit": "ms", "reference": "hand-written", "ratio": 0.8, "limit_ratio": 1.1, "gigabytes": 40.0, "share": 0.5},
    {"name": "layer on 2x1", "value": 57.0, "unit": "ms", "reference": "hand-written", "ratio": 1.0, "limit_ratio": 1.03, "gflops": 180.0, "share": 0.9},
    {"name": "call on 1 rank", "value": 0.37, "unit": "us", "reference": "hand-written", "ratio": 2.0, "limit_above": 1},
    {"name": "compile: README", "value": 5.6, "unit": "s"},
]


class Page(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = pathlib.Path(folder.name) / "page.md"
        self.results = pathlib.Path(folder.name) / "results.jsonl"
        self.page.write_text(f"before\n\n{run_page.BEGIN}\n\nold\n\n{run_page.END}\n\nafter\n", encoding="utf-8")
        self.results.write_text("".join(json.dumps(r) + "\n" for r in ROWS), encoding="utf-8")

    def run_script(self, *options: str) -> int:
        return subprocess.run([sys.executable, ROOT / "bench" / "run_page.py", self.results, "--page", self.page, *options],
                              capture_output=True, check=False).returncode

    def test_writes_between_its_marks(self) -> None:
        self.assertEqual(self.run_script("--on", "a machine"), 0)
        text = self.page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith(f"before\n\n{run_page.BEGIN}\n\nMeasured on a machine.\n\n| |"), text)
        self.assertTrue(text.endswith(f"({run_page.PLOT_NAME})\n\n{run_page.END}\n\nafter\n"), text)
        self.assertIn("| a < b | 1; 2 | 1 ms; 0.4 ms | 25 % of triad; 50 % of triad | hand-written | 1.50; 0.80 |\n", text)
        self.assertIn("| layer | 2x1 | 57 ms | 90 % of FMA | hand-written | 1.00 |\n", text)
        self.assertIn("| call | 1 | 0.37 us |  | hand-written | 2.00 |\n", text)
        self.assertNotIn("README", text)

    def test_draws_a_bar_for_each_measurement(self) -> None:
        self.run_script()
        drawn = xml.parse(self.page.parent / run_page.PLOT_NAME).getroot()
        space = "{http://www.w3.org/2000/svg}"
        bars = [r for r in drawn.iter(f"{space}rect") if r.get("fill") in (run_page.FASTER, run_page.SLOWER)]
        self.assertEqual(len(bars), 4)
        labels = [t.text for t in drawn.iter(f"{space}text")]
        self.assertIn("a < b, 2", labels)
        self.assertIn("0.80", labels)

    def test_checks(self) -> None:
        self.assertNotEqual(self.run_script("--check"), 0)
        self.run_script()
        self.assertEqual(self.run_script("--check"), 0)

    def test_the_page_has_the_marks(self) -> None:
        text = run_page.PAGE.read_text(encoding="utf-8")
        self.assertLess(text.index(run_page.BEGIN), text.index(run_page.END))


if __name__ == "__main__":
    unittest.main()
