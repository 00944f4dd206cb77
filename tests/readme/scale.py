#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the tables of docs/25-machines-and-time.md by running the program `scale` of examples/scale.

usage: scale.py PROGRAM [--check]
A comment `<!-- table: dense -->` stands before each table, and each model that the program lists has one. With --check
nothing is written; the script fails if a table is out of date.
"""
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "25-machines-and-time.md"
TABLE = re.compile(r"(<!-- table: (\w+) -->\n)((?:\|.*\n)*)")


def main() -> int:
    def lines(*words: str) -> list[str]:
        done = subprocess.run([sys.argv[1], *words], capture_output=True, encoding="utf-8", check=True)
        return done.stdout.splitlines()

    text = PAGE.read_text(encoding="utf-8")
    tables = sorted(match[2] for match in TABLE.finditer(text))
    models = sorted(lines("--list"))
    if tables != models:
        sys.exit(f"{PAGE.name} has the tables {tables}, but {sys.argv[1]} has the models {models}")

    def made(match: re.Match) -> str:
        return match[1] + "".join(line + "\n" for line in lines(match[2]) if line.startswith("|"))

    new = TABLE.sub(made, text)
    if "--check" in sys.argv[2:]:
        if new != text:
            print(f"{PAGE.name} is out of date: run tests/readme/scale.py", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
