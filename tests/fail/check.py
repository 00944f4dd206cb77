#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if a program does not compile, for the reason it says, with exactly one error in few lines, which name its file.

Lines of the program that this script reads:
  // expect: some words "a phrase"   every word, and every quoted phrase, must occur in what the compiler prints
  // expect: op=dot dim=embed        facts by their roles (op, dim, axis, collective, repair), which the compiler prints as types
  // expect-gcc:  // expect-clang:   the same, for one compiler
  // lines: 30 why                   the most lines that the compiler may print, where they are more than 25; lines-clang, lines-gcc
  // errors-gcc: 2 why               the same for errors that are no fault of the library, where a compiler counts one as several
  // of: the compiler                no sentence of the library: catalogue.py leaves the program out
  // flags: -Werror=unused-result    options of the compiler, for a warning that is expected
  // needs: runtime                  compile with Kokkos, Kokkos Kernels and MPI, else with the core headers alone
  // repair: x + h, where a is x, b is h    the proposed repairs are written in place of x + h, in the user's line or, if it lacks
                                    the text, in the first line with it, and must compile
  // alone: why                      a program that is not in a batch; one with flags is not in a batch either
  ... // here                        marks the user's line; the word @here in an expectation is its number
  // fix: what to write instead     not checked here, for catalogue.py, which makes docs/errors.md of these programs

One program:   check.py --compiler g++ --id GNU --core FILE --runtime FILE and_and.cpp
A batch:       check.py ... --batch 3/12 --into batch.cpp *.cpp

`--batch 3/12` divides the programs into 12 batches and compiles the third as one source: each program in a namespace of its own,
under its own file name and line numbers. The diagnostics are divided by the file that they name, and each program is checked by its
share as if it were alone. Diagnostics that name no program or several are a failure of the batch. Compilers report a template that is
instantiated with the same arguments only once, so programs with the same fault are in different batches, as far as there are enough.

Most programs include names.hpp first, and those that need Kokkos and MPI the whole library after it. `--precompile FOLDER`
compiles either once for a compiler (the second with `--include all`); the same option with a source makes use of that.
"""
import argparse
import collections
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from catalogue import sentences


# More than fits on a screen is not read.
MOST_LINES = 25
FACT = re.compile(r"(op|dim|axis|collective|repair)=(.*)")
REPAIR = re.compile(r'repaired_by<((?:(?:, )?(?:cleave::)?(?:v0::)?text<[^>]*>\{"[^"]*"\})+) ?>')
NOTE = re.compile(r"\s*//\s*(expect|expect-gcc|expect-clang|lines|lines-gcc|lines-clang|errors-gcc|errors-clang|needs|flags|repair|alone):\s*(.*)")
FAULTS = set(sentences())
COUNT = re.compile(r"\d+ (errors?|warnings?)( and \d+ errors?)? generated\.")


def repairs_in(output: str) -> list[str]:
    """The proposed repairs. Compilers print each in pieces."""
    return list(dict.fromkeys("".join(re.findall(r'"([^"]*)"', pieces)) for pieces in REPAIR.findall(output)))


def occurs(word: str, output: str) -> bool:
    fact = FACT.fullmatch(word)
    if not fact:
        return word in output
    role, name = fact.groups()
    if role == "repair":
        return name in repairs_in(output)
    return re.search(rf'\b{role}_named<(cleave::(v0::)?)?text<[^>]*>\{{"{re.escape(name)}"\}}', output) is not None


class Program:
    """What a program says about itself, and whether the compiler says that too."""

    def __init__(self, path: str, clang: bool):
        self.path = os.path.abspath(path)
        self.name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            self.text = file.read().splitlines()
        self.wanted: list[str] = []
        self.flags: list[str] = []
        self.runtime, self.alone, self.here, self.most, self.errors = False, False, None, MOST_LINES, 1
        self.repaired = ("", "")
        for number, line in enumerate(self.text, 1):
            if match := NOTE.match(line):
                self.read(*match.groups(), clang)
            elif re.search(r"//\s*here\s*$", line):
                self.here = number
        self.wanted = [word.replace("@here", str(self.here)) for word in self.wanted]

    def read(self, key: str, text: str, clang: bool) -> None:
        key, _, compiler = key.partition("-")
        if compiler and clang != (compiler == "clang"):
            return
        if key == "needs":
            self.runtime = self.runtime or "runtime" in text
        elif key == "flags":
            self.flags += text.split()
            self.alone = True
        elif key == "alone":
            self.alone = True
        elif key == "repair":
            mistake, _, names = text.partition(", where ")
            self.repaired = (mistake, names)
        elif key == "lines":
            self.most = int(text.split()[0])
        elif key == "errors":
            self.errors = int(text.split()[0])
        else:
            lexer = shlex.shlex(text, posix=True)
            lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
            self.wanted += list(lexer)

    def fault(self) -> str:
        """The fault that it expects, or its own name where the compiler words the error."""
        return next((word for word in self.wanted if word in FAULTS), self.name)

    def unfit(self, runtime: bool) -> list[str]:
        """Why a batch with or without Kokkos and MPI cannot have the program."""
        found = []
        if self.alone or any(re.match(r"\s*#(?!include)", line) for line in self.text):
            found.append("a program with '// alone:', '// flags:' or a macro is in no batch")
        if self.runtime != runtime:
            found.append("programs with '// needs: runtime' and others are in one batch")
        return found

    def mistakes(self) -> list[str]:
        """What is wrong with the program's own lines."""
        found = []
        if not self.wanted:
            found.append("no line '// expect: words'")
        if any("@here" in line for line in self.text if NOTE.match(line)) and self.here is None:
            found.append("an expectation uses @here, and no line ends in '// here'")
        return found

    def differences(self, output: list[str]) -> list[str]:
        """How the diagnostics of the program differ from what it expects."""
        text = "\n".join(output)
        errors = sum(bool(re.search(r"\berror:", line)) for line in output)
        found = [f"the diagnostics lack: {word}" for word in self.wanted if not occurs(word, text)]
        if errors == 0:
            found.insert(0, "it compiles")
        if errors != self.errors:
            found.append(f"{errors} errors instead of {self.errors}")
        if f"{self.name}:" not in text and f'"{self.name}"' not in text:
            found.append("the diagnostics do not name the file")
        # Its lines that say which file includes which are not counted: they depend on what the program includes.
        lines = [line for line in output if not re.match(r"In file included from |\s+from ", line)]
        if len(lines) > self.most:
            found.append(f"{len(lines)} lines of diagnostics, more than {self.most}")
        if self.repaired[0] and not self.repairs(output):
            found.append("no repair is proposed")
        if not self.repaired[0] and repairs_in(text):
            found.append("a repair is proposed, and no line '// repair:' says how to compile it")
        return found

    def repairs(self, output: list[str]) -> list[list[str]]:
        """The program with each of the repairs that the diagnostics propose, in namespaces of their own."""
        mistake, names = self.repaired
        if not mistake:
            return []
        operands = dict(name.split(" is ") for name in names.split(", ") if name)
        found = []
        for text in repairs_in("\n".join(output)):
            written = re.sub(r"\b[a-f]\b", lambda letter: operands[letter.group()], text) if operands else text
            lines = [line for line in self.text if not line.startswith("static_assert(plan") and line != "int main() {}"]
            at = lines.index(self.text[self.here - 1])
            if mistake not in lines[at]:
                at = next(number for number, line in enumerate(lines) if mistake in line and not line.startswith("//"))
            lines[at] = re.sub(rf"(?<!\w){re.escape(mistake)}(?!\w)", lambda _: written, lines[at], count=1)
            found.append(lines)
        return found


def unrepaired(arguments: argparse.Namespace, clang: bool, programs: list[tuple[Program, list[str]]], options: list[str]) -> list[str]:
    """What the compiler prints about the programs with the repairs that their diagnostics propose."""
    all_repairs = [(program, lines) for program, output in programs for lines in program.repairs(output)]
    if not all_repairs:
        return []
    here = pathlib.Path(__file__).resolve().parent
    texts = {line: None for _, lines in all_repairs for line in lines if line.startswith("#include <")}
    parts = ([] if options else [f'#include "{here / "names.hpp"}"']) + list(texts)
    for number, (program, lines) in enumerate(all_repairs):
        parts.append(f'namespace repaired_{number} {{\n#line 1 "{program.path}"')
        parts += ["" if line.startswith("#include") else line for line in lines]
        parts.append("}")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "repaired.cpp")
        source.write_text("\n".join(parts) + "\n", encoding="utf-8")
        return diagnostics(arguments, clang, programs[0][0].runtime, options, str(source))


def options_of(arguments: argparse.Namespace, clang: bool, runtime: bool) -> list[str]:
    limits = ["-fconstexpr-steps=100000000", "-ferror-limit=0"] if clang else ["-fconstexpr-ops-limit=1000000000", "-fconstexpr-loop-limit=10000000"]
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
    instantiates = ["-fpch-instantiate-templates"] if clang else []
    return subprocess.run([*command, *instantiates, "-x", "c++-header", str(header), "-o", str(out)], check=False).returncode


def diagnostics(arguments: argparse.Namespace, clang: bool, runtime: bool, options: list[str], source: str) -> list[str]:
    """The lines that the compiler prints about a source."""
    command = [arguments.compiler, "-fsyntax-only", *options_of(arguments, clang, runtime), *options, source]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                            errors="replace", env=dict(os.environ, LC_ALL="C"), check=False)
    return [line for line in result.stdout.splitlines() if not COUNT.fullmatch(line)]


def told(program: Program, output: list[str], found: list[str]) -> int:
    """Prints the diagnostics of a program, and how it differs from what it expects."""
    print("\n".join(output))
    print(f"{len(output)} lines of diagnostics")
    for difference in found:
        print(f"{program.path}: {difference}")
    return 1 if found else 0


def check_one(arguments: argparse.Namespace, clang: bool, program: Program) -> int:
    options = program.flags
    first = next((line for line in program.text if line and not line.startswith("//")), "")
    if arguments.precompile and first == '#include "names.hpp"':
        options = options + precompiled(arguments.precompile, "all" if program.runtime else "names", clang)
    output = diagnostics(arguments, clang, program.runtime, options, program.path)
    found = program.mistakes() or program.differences(output)
    if wrong := unrepaired(arguments, clang, [(program, output)], options):
        found += ["a proposed repair does not compile:", *wrong]
    return told(program, output, found)


def space_of(name: str) -> str:
    """The namespace of a program in a batch."""
    return f'batch_{name.removesuffix(".cpp")}'


def batched(programs: list[Program]) -> str:
    """The source of a batch: the includes of all programs, then each program without its includes and its main."""
    includes = {line: None for program in programs for line in program.text if line.startswith("#include <")}
    parts = list(includes)
    for program in programs:
        parts.append(f'namespace {space_of(program.name)} {{\n#line 1 "{program.path}"')
        parts += ["" if line.startswith("#include") or line == "int main() {}" else line for line in program.text]
        parts.append("}")
    return "\n".join(parts) + "\n"


def divided(output: list[str], names: set[str]) -> tuple[dict[str, list[str]], list[list[str]]]:
    """The diagnostics of each program, and those that name no program or several.

    A diagnostic is an error or a warning, with the lines before it that say where it is, and its notes after it. Lines that say where
    something is belong to what follows them.
    """
    blocks: list[list[str]] = []
    where: list[str] = []
    for line in output:
        severity = re.search(r":(?:\d+:)* (?:fatal )?(error|warning|note):", line)
        if severity and severity.group(1) != "note" or not severity and not blocks:
            blocks.append(where + [line]) if severity else where.append(line)
            where = [] if severity else where
        elif severity:
            blocks[-1] += where + [line]
            where = []
        elif where or re.match(r"In file included from |\S+: In |\S+: +(required|recursively required)|\S+: At global scope", line):
            where.append(line)
        else:
            blocks[-1].append(line)
    shares: dict[str, list[str]] = collections.defaultdict(list)
    strays = [where] if where else []
    for block in blocks:
        named = {name for line in block for name in re.findall(r'(\w+\.cpp)[":]', line)} & names
        if len(named) == 1:
            name = named.pop()
            shares[name] += [line.replace(f"{space_of(name)}::", "") for line in block]
        else:
            strays.append(block)
    return shares, strays


def check_batch(arguments: argparse.Namespace, clang: bool, programs: list[Program]) -> int:
    part, parts = (int(number) for number in arguments.batch.split("/"))
    # Programs of one fault follow each other, so they are in different batches.
    chosen = sorted(programs, key=lambda program: (program.fault(), program.name))[part - 1::parts]
    runtime = chosen[0].runtime
    source = arguments.into
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(batched(chosen), encoding="utf-8")
    options_of_batch = precompiled(arguments.precompile, "all" if runtime else "names", clang)
    shares, strays = divided(diagnostics(arguments, clang, runtime, options_of_batch, str(source)), {program.name for program in chosen})
    failed = bool(strays)
    for block in strays:
        print("\n".join(block))
        print(f"{source}: the lines above name no program of the batch, or several\n")
    for program in chosen:
        if found := program.unfit(runtime) or program.mistakes() or program.differences(shares[program.name]):
            failed = True
            told(program, shares[program.name], found)
            options = sys.argv[:sys.argv.index("--batch")]
            print(f"alone: {shlex.join([sys.executable, *options, program.path])}")
            print("If it passes alone, another program of the batch hides its error: write '// alone: why' into it.\n")
    if wrong := unrepaired(arguments, clang, [(program, shares[program.name]) for program in chosen], options_of_batch):
        failed = True
        print("\n".join(["A proposed repair does not compile:", *wrong]))
    print(f"{len(chosen)} programs: {' '.join(program.name for program in chosen)}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--id", required=True, help="CMake's name of the compiler")
    parser.add_argument("--core", required=True, help="file with the options of Cleave::core")
    parser.add_argument("--runtime", required=True, help="file with the options of Cleave::Cleave")
    parser.add_argument("--openmp", action="append", help="an option for OpenMP; may be repeated; default: -fopenmp")
    parser.add_argument("--precompile", type=pathlib.Path, help="folder with precompiled headers; without a source, compiles one")
    parser.add_argument("--include", choices=["names", "all"], default="names", help="what --precompile compiles")
    parser.add_argument("--batch", help="K/N: check the K-th of N batches of the sources, with --into and --precompile")
    parser.add_argument("--into", type=pathlib.Path, help="the file to write the source of the batch to")
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args()

    clang = "Clang" in arguments.id
    if not arguments.sources:
        command = [arguments.compiler, *options_of(arguments, clang, arguments.include == "all")]
        return precompile(arguments.precompile, arguments.include, command, clang)
    programs = [Program(source, clang) for source in arguments.sources]
    if arguments.batch:
        return check_batch(arguments, clang, programs)
    return max(check_one(arguments, clang, program) for program in programs)


if __name__ == "__main__":
    sys.exit(main())
