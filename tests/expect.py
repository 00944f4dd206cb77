#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command, and passes only if both its exit status and what it prints are as expected.

ctest's PASS_REGULAR_EXPRESSION ignores the exit status: a program that says the right words and then crashes passes. Tests made by
cleave_expect_test (cmake/run.cmake) go through this.
"""
import argparse
import re
import subprocess
import sys

# What mpirun adds where a program returns an exit status that is not 0.
LAUNCHER = re.compile(r"^(-{20,}|={20,}|Primary job +terminated normally.*|a non-zero exit code.*|mpirun .*detected that one or more.*|mpiexec .*detected.*"
                      r"|with non-zero status.*|the job to be terminated.*|  Process name:.*|  Exit code: .*|=   .*|\s*)$")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exit", choices=["zero", "fault"], required=True,
                        help="zero, or fault: another status of the program's own, not that of a signal")
    parser.add_argument("--says", action="append", required=True, metavar="REGEX", help="must occur; may be given several times")
    parser.add_argument("--lines", type=int, metavar="N", help="print at most so many lines, those of mpirun aside")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    result = subprocess.run(arguments.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False)
    print(result.stdout, end="")
    faults = []
    # A shell, and mpirun, add 128 to the number of the signal that ended a program.
    crashed = result.returncode < 0 or result.returncode >= 128
    if arguments.exit == "zero" and result.returncode != 0:
        faults.append(f"the exit status is {result.returncode}, not 0")
    if arguments.exit == "fault" and (result.returncode == 0 or crashed):
        faults.append(f"the exit status is {result.returncode}, not one of a fault that the program reports")
    faults += [f"it does not say: {words}" for words in arguments.says if not re.search(words, result.stdout)]
    lines = [line for line in result.stdout.splitlines() if not LAUNCHER.match(line)]
    if arguments.lines is not None and len(lines) > arguments.lines:
        faults.append(f"it prints {len(lines)} lines, not at most {arguments.lines}:\n  " + "\n  ".join(lines))
    for fault in faults:
        print(f"expect.py: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
