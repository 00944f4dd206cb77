#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs clang-format and clang-tidy over the project, as the target `lint` does (cmake --workflow --preset lint).

clang-format checks all C++ sources that git knows (with --fix it rewrites them), clang-tidy all headers of include/cleave, which one source
includes. Comments of more than 120 columns are reported too, since clang-format leaves comments alone, and lines of the documents of more
than 100 columns, outside of tables and code. With --staged, as in .githooks/pre-commit, it checks what is staged and nothing else.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 120
DOCUMENT_LIMIT = 100
# Pages that are written from headers and tests, and quote them.
GENERATED = ("docs/errors.md", "docs/reference.md", "docs/08-operations.md", "docs/injected-faults.md")
# Lines of tests/fail that its checker reads.
DATA = ("// expect:", "// fix:")


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, stdout=subprocess.PIPE, encoding="utf-8")


def staged_files(*patterns: str) -> list[str]:
    found = git("diff", "--cached", "--name-only", "--diff-filter=d", "--", *patterns)
    found.check_returncode()
    return found.stdout.split()


def text_of(path: str, staged: bool) -> str:
    """A file as it is in the folder, or as it is staged."""
    if not staged:
        return (ROOT / path).read_text(encoding="utf-8")
    shown = git("show", f":{path}")
    shown.check_returncode()
    return shown.stdout


def sources(since: str | None) -> list[str]:
    found = git(*(["diff", "--name-only", "--diff-filter=d", since] if since else ["ls-files"]), "--", "*.hpp", "*.cpp")
    if found.returncode == 0 or since:
        found.check_returncode()
        return found.stdout.split()
    folders = ["include", "examples", "tests", "bench", "cmake"]  # a source archive, which git does not know
    return sorted(path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.[hc]pp"))


def formatted(tool: str, fix: bool, staged: bool, path: str) -> tuple[str, int, int]:
    """The path, how many of its lines are laid out otherwise, and how many comments are too long."""
    file = ROOT / path
    have = text_of(path, staged)
    want = subprocess.run([tool, f"--assume-filename={file}"], input=have, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    changed = sum(line.startswith("- ") for line in difflib.ndiff(have.splitlines(), want.splitlines())) if have != want else 0
    changed = changed or int(have != want)
    if fix and have != want:
        file.write_text(want, encoding="utf-8")
    return path, changed, sum(len(line) > LIMIT and "//" in line and not line.startswith(DATA) for line in want.splitlines())


def check_format(tool: str, fix: bool, staged: bool, files: list[str]) -> bool:
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: formatted(tool, fix, staged, path), files))
    lines = sum(changed for _, changed, _ in results)
    others = [path for path, changed, _ in results if changed]
    long = sum(count for _, _, count in results)
    for path, changed, count in results:
        if changed or count:
            print(f"{path}: {changed} lines {'re' if fix else 'not '}formatted" + (f", {count} comments over {LIMIT} columns" if count else ""))
    print(f"clang-format: {lines} lines of {len(others)} files {'rewritten' if fix else 'differ'}, of {len(files)} files; "
          f"{long} comments over {LIMIT} columns")
    return long == 0 and (fix or not others)


def documents() -> list[str]:
    in_folders = [file for folder in ("docs", "bench", "tests") for file in (ROOT / folder).rglob("*.md")]
    return [file.relative_to(ROOT).as_posix() for file in sorted([*ROOT.glob("*.md"), *in_folders])]


def check_documents(staged: bool) -> bool:
    count = 0
    for path in staged_files("*.md") if staged else documents():
        code = False
        for number, line in enumerate(text_of(path, staged).splitlines(), 1):
            code ^= line.startswith("```")
            if len(line) > DOCUMENT_LIMIT and not code and not line.startswith("|") and path not in GENERATED:
                print(f"{path}:{number}: {len(line)} columns")
                count += 1
    print(f"documents: {count} lines over {DOCUMENT_LIMIT} columns")
    return count == 0


def check_tidy(tool: str, options: str, openmp: str, folder: pathlib.Path, fft: bool) -> bool:
    headers = sorted(path.relative_to(ROOT / "include").as_posix() for path in (ROOT / "include" / "cleave").rglob("*.hpp"))
    headers.remove("cleave/interop/petsc.hpp") # needs PETSc
    headers.remove("cleave/sparse/kokkos_sparse.hpp") # needs the sparse part of Kokkos Kernels
    if not fft:
        headers = [path for path in headers if not re.search(r"linalg/fft(_kernels)?\.hpp$", path)]
    source = folder / "all_headers.cpp"
    source.write_text("".join(f"#include <{path}>\n" for path in headers), encoding="utf-8")
    flags = pathlib.Path(options).read_text(encoding="utf-8").splitlines()
    command = [tool, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", str(source), "--", "-std=c++20", "-fconstexpr-steps=100000000"]
    result = subprocess.run([*command, *re.split("[;|]", openmp), *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                            check=False)
    print(result.stdout, end="")
    if result.returncode != 0 and not result.stdout:
        print(result.stderr, end="")
    found = len(re.findall(r"^\S+:\d+:\d+: (?:warning|error):", result.stdout, re.M))
    print(f"clang-tidy: {found} findings in {len(headers)} headers")
    return result.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", metavar="CLANG_FORMAT")
    parser.add_argument("--fix", action="store_true", help="rewrite what clang-format would lay out otherwise")
    parser.add_argument("--since", metavar="REF", default=os.environ.get("CLEAVE_LINT_SINCE"),
                        help="format only files that changed since this commit (or CLEAVE_LINT_SINCE in the environment)")
    parser.add_argument("--staged", action="store_true", help="check what is staged for a commit, not the files in the folder")
    parser.add_argument("--tidy", metavar="CLANG_TIDY")
    parser.add_argument("--options", help="file with the options of Cleave::Cleave, one a line")
    parser.add_argument("--openmp", default="-fopenmp", help="options for OpenMP, separated by semicolons or bars")
    parser.add_argument("--folder", type=pathlib.Path, help="where to write the source that includes all headers")
    parser.add_argument("--fft", action="store_true", help="FFTW is there")
    arguments = parser.parse_args()
    right = True
    if arguments.format:
        files = staged_files("*.hpp", "*.cpp") if arguments.staged else sources(arguments.since)
        right = check_format(arguments.format, arguments.fix and not arguments.staged, arguments.staged, files) and right
        right = check_documents(arguments.staged) and right
    if arguments.tidy:
        right = check_tidy(arguments.tidy, arguments.options, arguments.openmp, arguments.folder, arguments.fft) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
