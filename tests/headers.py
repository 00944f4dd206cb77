#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes sources which prove that every header compiles alone, as few as possible, and prints their names.

    headers.py --include FOLDER --into FOLDER cleave/a.hpp ...

A source includes a chain of headers: each one includes the one before it, directly or through others. So in front of a header there
is nothing but what it includes itself, and it compiles as if alone. The last one is included twice. The fewest chains that have all
headers are found as a largest matching of headers with headers that include them.
"""
import argparse
import functools
import pathlib
import re


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--into", type=pathlib.Path, required=True)
    parser.add_argument("headers", nargs="+")
    arguments = parser.parse_args()

    @functools.cache
    def reached(header: str) -> frozenset[str]:
        text = (arguments.include / header).read_text(encoding="utf-8")
        direct = re.findall(r"^#include <(cleave/[^>]+)>", text, re.MULTILINE)
        return frozenset(direct).union(*(reached(other) for other in direct))

    after: dict[str, str] = {}
    before: dict[str, str] = {}

    def extend(header: str, tried: set[str]) -> bool:
        """Finds a header that follows `header` in its chain, perhaps by moving other headers to other chains."""
        for other in arguments.headers:
            if header in reached(other) and other not in tried:
                tried.add(other)
                if other not in before or extend(before[other], tried):
                    before[other], after[header] = header, other
                    return True
        return False

    for header in arguments.headers:
        extend(header, set())
    for header in arguments.headers:
        if header in before:
            continue
        chain = [header]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        source = arguments.into / pathlib.Path(chain[-1]).with_suffix(".cpp")
        text = "".join(f"#include <{name}>\n" for name in [*chain, chain[-1]])
        source.parent.mkdir(parents=True, exist_ok=True)
        if not source.exists() or source.read_text(encoding="utf-8") != text:
            source.write_text(text, encoding="utf-8")
        print(source)


if __name__ == "__main__":
    main()
