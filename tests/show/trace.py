#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if a run with CLEAVE_TRACE writes one trace for each rank: valid JSON, steps within calls, lines of the source, and the bytes of
every step; and if a trace that cannot be written is a sentence, and the run continues."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def run(command: list[str], trace: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, env={**os.environ, "CLEAVE_TRACE": trace}, capture_output=True, text=True, check=False, timeout=100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--source", required=True, help="the name of the source that the lines are of")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        plain = run(arguments.command, "")
        traced = run(arguments.command, f"{folder}/run.json")
        if traced.returncode != plain.returncode:
            wrong.append(f"with a trace it ends with {traced.returncode} instead of {plain.returncode}: {traced.stderr}")
        for rank in range(arguments.ranks):
            files = list(pathlib.Path(folder).glob(f"run.{rank}-*.json"))
            if len(files) != 1:
                wrong.append(f"rank {rank} has {len(files)} traces")
                continue
            events = json.loads(files[0].read_text(encoding="utf-8"))
            process = files[0].stem.split("-")[-1]
            timed = [event for event in events if event["ph"] == "X"]
            calls = [event for event in timed if event["cat"] == "call"]
            steps = [event for event in timed if event["cat"] == "step"]
            for step in steps:
                inside = any(call["ts"] <= step["ts"] and step["ts"] + step["dur"] <= call["ts"] + call["dur"] + 0.01 for call in calls)
                if not inside or str(step["pid"]) != process or not step["args"]["line"].startswith(arguments.source + ":"):
                    wrong.append(f"rank {rank}: {step}")
            empty = {step["name"] for step in steps if step["args"]["bytes"] <= 0}
            if not any(" for " in step["name"] for step in steps) or empty:
                wrong.append(f"rank {rank}: no collectives, or no bytes of {empty}")
        refused = run(arguments.command, f"{folder}/none/run.json")
        for rank in range(arguments.ranks):
            if f"cleave: rank {rank} cannot write the trace" not in refused.stderr or refused.returncode != plain.returncode:
                wrong.append(f"rank {rank} says nothing of a trace that it cannot write, or stops: {refused.stderr}")
    print("\n".join(wrong[:20]) or "all is right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
