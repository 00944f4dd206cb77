#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if a program does not compile, for the reason it says, with exactly one error in few lines, which name its file.

Lines of the program that this script reads:
  // expect: some words "a phrase"   every word, and every quoted phrase, must occur in what the compiler prints
  // expect: op=dot dim=embed        facts by their roles (op, dim, axis, collective), which the compiler prints as types
  // expect-gcc:  // expect-clang:   the same, for one compiler
  // lines: 30 why                   the most lines that the compiler may print, where they are more than 25; lines-clang, lines-gcc
  // errors-gcc: 2 why               the same for errors that are no fault of the library, where a compiler counts one as several
  // of: the compiler                no sentence of the library: catalogue.py leaves the program out
  // flags: -Werror=unused-result    options of the compiler, for a warning that is expected
  // needs: runtime                  compile with Kokkos, Kokkos Kernels and MPI, else with the core headers alone
  ... // here                        marks the user's line; the word @here in an expectation is its number
  // mend: what to write instead     not checked here, for catalogue.py, which makes docs/errors.md of these programs

Most programs include names.hpp first, and those that need Kokkos and MPI the whole library after it. `--precompile FOLDER`
compiles either once for a compiler (the second with `--all`); the same option with a source makes use of that.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys


# More than fits on a screen is not read.
MOST_LINES = 25
FACT = re.compile(r"(op|dim|axis|collective)=(.*)")


def occurs(word: str, output: str) -> bool:
    fact = FACT.fullmatch(word)
    if not fact:
        return word in output
    role, name = fact.groups()
    return re.search(rf'\b{role}_named<(cleave::(v0::)?)?text<[^>]*>\{{"{re.escape(name)}"\}}', output) is not None


def options_of(arguments: argparse.Namespace, clang: bool, runtime: bool) -> list[str]:
    limits = ["-fconstexpr-steps=100000000"] if clang else ["-fconstexpr-ops-limit=1000000000", "-fconstexpr-loop-limit=10000000"]
    with open(arguments.runtime if runtime else arguments.core, encoding="utf-8") as file:
        options = file.read().splitlines()
    openmp = (arguments.openmp or ["-fopenmp"]) if runtime else []
    return ["-std=c++20", "-fdiagnostics-color=never", *limits, *openmp, *options]


def precompiled(folder: pathlib.Path, name: str, clang: bool) -> list[str]:
    """The options that make a compiler read a header of `folder` precompiled. g++ takes the text if the precompiled form is unfit."""
    return ["-include-pch", str(folder / f"{name}.pch")] if clang else ["-include", str(folder / f"{name}.hpp")]


def precompile(folder: pathlib.Path, name: str, command: list[str], clang: bool) -> int:
    """Writes names.hpp precompiled into `folder`, or, as `all`, names.hpp and the whole library."""
    folder.mkdir(parents=True, exist_ok=True)
    header = folder / f"{name}.hpp"
    text = f'#include "{pathlib.Path(__file__).resolve().parent / "names.hpp"}"\n'
    header.write_text(text + ("#include <cleave/cleave.hpp>\n" if name == "all" else ""), encoding="utf-8")
    out = folder / (f"{name}.pch" if clang else f"{name}.hpp.gch")
    return subprocess.run([*command, "-x", "c++-header", str(header), "-o", str(out)], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--id", required=True, help="CMake's name of the compiler")
    parser.add_argument("--core", required=True, help="file with the options of Cleave::core")
    parser.add_argument("--runtime", required=True, help="file with the options of Cleave::Cleave")
    parser.add_argument("--openmp", action="append", help="an option for OpenMP; may be repeated; default: -fopenmp")
    parser.add_argument("--precompile", type=pathlib.Path, help="folder with precompiled headers; without a source, compiles one")
    parser.add_argument("--all", action="store_true", help="compile the whole library, not names.hpp alone")
    parser.add_argument("source", nargs="?")
    arguments = parser.parse_args()

    if arguments.source is None:
        clang = "Clang" in arguments.id
        command = [arguments.compiler, *options_of(arguments, clang, arguments.all)]
        return precompile(arguments.precompile, "all" if arguments.all else "names", command, clang)
    with open(arguments.source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    clang = "Clang" in arguments.id
    wanted, flags, runtime, here, most, count = [], [], False, None, MOST_LINES, 1
    for number, line in enumerate(lines, 1):
        match = re.match(r"\s*//\s*(expect|expect-gcc|expect-clang|lines|lines-gcc|lines-clang|errors-gcc|errors-clang|needs|flags):\s*(.*)", line)
        if match:
            key, text = match.groups()
            if key == "needs":
                runtime = runtime or "runtime" in text
            elif key == "flags":
                flags += text.split()
            elif key.startswith("lines"):
                if key == "lines" or clang == (key == "lines-clang"):
                    most = int(text.split()[0])
            elif key.startswith("errors"):
                if clang == (key == "errors-clang"):
                    count = int(text.split()[0])
            elif key == "expect" or clang == (key == "expect-clang"):
                lexer = shlex.shlex(text, posix=True)
                lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
                wanted += list(lexer)
        elif re.search(r"//\s*here\s*$", line):
            here = number
    if not wanted:
        print(f"{arguments.source}: no line '// expect: words'")
        return 1
    if any("@here" in word for word in wanted) and here is None:
        print(f"{arguments.source}: an expectation uses @here, and no line ends in '// here'")
        return 1
    wanted = [word.replace("@here", str(here)) for word in wanted]

    command = [arguments.compiler, "-fsyntax-only", *options_of(arguments, clang, runtime), *flags]
    first = next((line for line in lines if line and not line.startswith("//")), "")
    if arguments.precompile and first == '#include "names.hpp"':
        command += precompiled(arguments.precompile, "all" if runtime else "names", clang)
    command.append(arguments.source)
    environment = dict(os.environ, LC_ALL="C")
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            encoding="utf-8", errors="replace", env=environment, check=False)
    output = result.stdout

    errors = [line for line in output.splitlines() if re.search(r"\berror:", line)]
    faults = []
    if result.returncode == 0:
        faults.append("it compiles")
    faults += [f"the diagnostics lack: {word}" for word in wanted if not occurs(word, output)]
    if len(errors) != count:
        faults.append(f"{len(errors)} errors instead of {count}")
    name = os.path.basename(arguments.source)
    if f"{name}:" not in output and f'"{name}"' not in output:
        faults.append("the diagnostics do not name the file")
    # Its lines that say which file includes which are not counted: they depend on what the program includes.
    lines = [line for line in output.splitlines() if not re.match(r"In file included from |\s+from ", line)]
    if len(lines) > most:
        faults.append(f"{len(lines)} lines of diagnostics, more than {most}")
    print(output)
    print(f"{len(lines)} lines of diagnostics")
    for fault in faults:
        print(f"{arguments.source}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
