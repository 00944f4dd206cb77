#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the tables of docs/25-machines-and-time.md by running the programs of examples/scale.

usage: scale.py FOLDER [--check]
FOLDER has the programs scale_*. A comment `<!-- table: scale_dense -->` stands before each table, and each program has one. With --check
nothing is written; the script fails if a table is out of date.
"""
import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "25-machines-and-time.md"
TABLE = re.compile(r"(<!-- table: (\w+) -->\n)((?:\|.*\n)*)")


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    text = PAGE.read_text(encoding="utf-8")
    tables = sorted(match[2] for match in TABLE.finditer(text))
    programs = sorted(path.stem for path in folder.glob("scale_*") if path.is_file() and os.access(path, os.X_OK))
    if tables != programs:
        sys.exit(f"{PAGE.name} has the tables {tables}, but {folder} has the programs {programs}")

    def made(match: re.Match) -> str:
        done = subprocess.run([folder / match[2]], capture_output=True, encoding="utf-8", check=True)
        return match[1] + "".join(line + "\n" for line in done.stdout.splitlines() if line.startswith("|"))

    new = TABLE.sub(made, text)
    if "--check" in sys.argv[2:]:
        if new != text:
            print(f"{PAGE.name} is out of date: run tests/readme/scale.py", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
