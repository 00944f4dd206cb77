# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A document that a script writes, and a test that it is up to date."""
import argparse
import difflib
import pathlib
import re
import textwrap
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Wrong(Exception):
    """What the page is made from is not as the script expects; one sentence."""


def read(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8")


def wrapped(text: str, indent: str = "", first: str = "") -> str:
    """The text in lines of at most 100 columns, none of which ends within `code` that fits into one."""
    kept = re.sub(r"`[^`]*`", lambda code: code.group() if len(code.group()) > 90 else code.group().replace(" ", "\0"), text)
    return textwrap.fill(kept, 100, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def main(script: str, description: str, page: pathlib.Path, make: Callable[[], str]) -> int:
    """Writes the page, or with --check says whether it is what would be written; the exit status."""
    name = page.relative_to(ROOT)
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help=f"only say whether {name} is up to date")
    arguments = parser.parse_args()
    try:
        made = make()
    except Wrong as wrong:
        print(wrong)
        return 1
    if not arguments.check:
        page.write_text(made, encoding="utf-8")
        return 0
    kept = read(page) if page.exists() else ""
    if kept != made:
        print("".join(difflib.unified_diff(kept.splitlines(True), made.splitlines(True), str(name), "as generated")))
        print(f"{name} is out of date; run python3 {pathlib.Path(script).resolve().relative_to(ROOT)}")
        return 1
    return 0
