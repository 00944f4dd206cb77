#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes sources of several code blocks each, as few as possible, and prints their paths.

    chains.py --include FOLDER --into FOLDER BLOCK.cpp ...

The templates of the library's headers are instantiated at the end of a source, which takes longer than most blocks. So blocks
share a source, each in a namespace of its own. A block comes after blocks that include the same headers or fewer, directly or
through headers of Cleave, so that a missing include is an error as in a source of its own. The fewest chains are found as
tests/headers.py finds them.
"""
import argparse
import functools
import pathlib
import re
import sys

from extract import write_source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--into", type=pathlib.Path, required=True)
    parser.add_argument("blocks", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()

    @functools.cache
    def text(block: pathlib.Path) -> str:
        return block.read_text(encoding="utf-8")

    @functools.cache
    def reached(line: str) -> frozenset[str]:
        header = arguments.include / line.removeprefix("#include <").removesuffix(">")
        direct = re.findall(r"^#include .*", text(header), re.MULTILINE) if header.is_file() else []
        return frozenset([line]).union(*map(reached, direct))

    @functools.cache
    def includes(block: pathlib.Path) -> frozenset[str]:
        return frozenset().union(*map(reached, re.findall(r"^#include .*", text(block), re.MULTILINE)))

    for block in arguments.blocks:
        if "cleave::" in text(block) and not any(i.startswith("#include <cleave/") for i in includes(block)):
            sys.exit(f"{block} includes no header of Cleave")
    # main, specialisations and macros do not go into a namespace.
    alone = [b for b in arguments.blocks if re.search(r"^(int main|template *<>|namespace (cleave|std)\b|#define)", text(b), re.MULTILINE)]
    shared = sorted((b for b in arguments.blocks if b not in alone), key=lambda b: (len(includes(b)), b.name))
    after: dict[pathlib.Path, pathlib.Path] = {}
    before: dict[pathlib.Path, pathlib.Path] = {}

    def extend(block: pathlib.Path, tried: set[pathlib.Path]) -> bool:
        """Finds a block that follows `block` in its chain, perhaps by moving other blocks to other chains."""
        for other in shared[shared.index(block) + 1:]:
            if includes(block) <= includes(other) and other not in tried:
                tried.add(other)
                if other not in before or extend(before[other], tried):
                    before[other], after[block] = block, other
                    return True
        return False

    for block in shared:
        extend(block, set())
    arguments.into.mkdir(parents=True, exist_ok=True)
    for block in alone:
        print(block.as_posix())
    for block in shared:
        if block in before:
            continue
        lines, seen = [], set()
        while block is not None:
            new = [i for i in re.findall(r"^#include .*", text(block), re.MULTILINE) if i not in seen]
            seen.update(new)
            lines += [*new, f"namespace block_{block.stem} {{", f'#include "{block.resolve().as_posix()}"', "}"]
            last, block = block, after.get(block)
        write_source(arguments.into / f"{last.stem}.cpp", lines)


if __name__ == "__main__":
    main()
