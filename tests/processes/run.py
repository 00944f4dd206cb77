#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if a command fails in time and says why: its exit status is not 0, it prints all the words and no wrong value, no rank ends as if
nothing had been wrong, and it does not crash."""
import argparse
import subprocess
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--within", type=float, required=True, help="seconds")
    parser.add_argument("--words", nargs="*", default=[], help="what it must print")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    begin = time.monotonic()
    try:
        done = subprocess.run(arguments.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=arguments.within + 20)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, status = (late.stdout or b"").decode(errors="replace"), 0
    seconds = time.monotonic() - begin
    print(output)
    missing = [words for words in arguments.words if words not in output]
    for words in missing:
        print(f"run.py: it did not print: {words}")
    if status == 0:
        print("run.py: it did not fail")
    if seconds > arguments.within:
        print(f"run.py: it took {seconds:.1f} s, more than {arguments.within}")
    wrong = [words for words in ("no error", "wrong value") if words in output]
    for words in wrong:
        print(f"run.py: it printed: {words}")
    crashed = arguments.words and ("Segmentation fault" in output or "Aborted" in output)
    if crashed:
        print("run.py: it crashed")
    return 1 if missing or wrong or status == 0 or seconds > arguments.within or crashed else 0


if __name__ == "__main__":
    sys.exit(main())
