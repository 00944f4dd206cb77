#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the marked code blocks of Markdown files as C++ sources, and prints their paths.

A block is marked by the comment <!-- snippet: NAME --> on the last line that is not empty before it. Blocks of one document
with the same NAME are one source, in the order of the document. `#line` lets the compiler name the document's own lines.
"""
import argparse
import pathlib
import re
import sys


def write_source(source: pathlib.Path, lines: list[str]) -> None:
    """Writes a source and prints its path; one that is so already keeps its time."""
    text = "\n".join(lines) + "\n"
    if not source.exists() or source.read_text(encoding="utf-8") != text:
        source.write_text(text, encoding="utf-8")
    print(source.as_posix())


def snippets(document: pathlib.Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name, inside = None, False
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.fullmatch(r"\s*<!--\s*snippet:\s*([a-z0-9_]+)\s*-->\s*", line)
        if inside:
            if line.strip() == "```":
                name, inside = None, False
            else:
                found[name].append(line)
        elif mark:
            name = mark.group(1)
        elif name and line.strip() == "```cpp":
            inside = True
            found.setdefault(name, []).append(f'#line {number + 1} "{document.as_posix()}"')
        elif line.strip():
            if name:
                sys.exit(f"{document}:{number}: a ```cpp block must follow the mark of the snippet '{name}'")
    if inside:
        sys.exit(f"{document}: the snippet '{name}' is not closed")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", required=True, type=pathlib.Path)
    parser.add_argument("documents", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    for document in arguments.documents:
        prefix = re.sub(r"[^a-z0-9]+", "_", document.stem.lower())
        for name, lines in snippets(document).items():
            source = arguments.into / f"{prefix}_{name}.cpp"
            write_source(source, lines)


if __name__ == "__main__":
    main()
