#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether bench/report.py fails where it should. Needs no measurement."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import report  # noqa: E402


def row(name: str, ratio: float, limit: float = 1.1, **more) -> dict:
    return {"name": name, "value": 2.0 * ratio, "unit": "ms", "reference_value": 2.0, "ratio": ratio, "limit_ratio": limit, **more}


def reported(*rows: dict, options: tuple[str, ...] = ()) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.jsonl"
        results.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        done = subprocess.run([sys.executable, ROOT / "bench" / "report.py", results, *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Report(unittest.TestCase):
    known, (recorded, reason) = next(iter(report.KNOWN.items()))

    def test_passes_within_limits_and_noise(self) -> None:
        status, text = reported(row("a", 1.0), row("b", 1.1 * report.NOISE - 0.001))
        self.assertEqual(status, 0, text)
        self.assertIn("2 measurements with a limit, 0 more than", text)

    def test_fails_above_a_limit(self) -> None:
        status, text = reported(row("a", 1.0), row("slow one", 1.1 * report.NOISE + 0.001))
        self.assertEqual(status, 1)
        self.assertRegex(text, r"slow one .* 1\.1  ABOVE")
        self.assertIn("  slow one: 1.156, at most 1.1", text)
        self.assertEqual(reported(row("slow one", 3), options=("--report-only",))[0], 0)

    def test_known_ones_are_listed_and_fail_when_worse(self) -> None:
        limit = self.recorded / 1.2
        status, text = reported(row(self.known, self.recorded, limit))
        self.assertEqual(status, 0, text)
        self.assertIn("above, as known", text)
        self.assertIn(self.reason, text)
        status, text = reported(row(self.known, self.recorded * report.NOISE + 0.001, limit))
        self.assertEqual(status, 1)
        self.assertIn("WORSE THAN RECORDED", text)
        status, text = reported(row(self.known, limit, limit))
        self.assertEqual(status, 0, text)
        self.assertIn("within its limit in this run", text)

    def test_other_limits(self) -> None:
        call = {"name": "call", "unit": "us", "reference_value": 1.0, "ratio": 2.0, "limit_above": 1}
        self.assertEqual(reported({**call, "value": 2.0})[0], 0)
        self.assertEqual(reported({**call, "value": 2.1})[0], 1)
        memory = {"name": "compile, memory", "unit": "MB", "limit": 600}
        self.assertEqual(reported({**memory, "value": 600})[0], 0)
        self.assertEqual(reported({**memory, "value": 601})[0], 1)

    def test_shares_of_peak(self) -> None:
        _, text = reported(row("a", 1.0, gflops=93.0, share=0.93), row("b", 1.0, gigabytes=12.0))
        self.assertRegex(text, r"93 GFLOP/s +93 %")
        self.assertIn("12 GB/s", text)

    def test_every_known_row_has_a_reason(self) -> None:
        for name, (recorded, reason) in report.KNOWN.items():
            self.assertGreater(recorded, 0.01, name)
            self.assertTrue(reason, name)


if __name__ == "__main__":
    unittest.main()
