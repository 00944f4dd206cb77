#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the programs of bench/compile and writes seconds and peak memory as lines of JSON.

Compiler and include paths are those of the build. The optimisation is -O2, for no particular processor, without a
precompiled header. Seconds are CPU seconds of the compiler's processes, so that other work on the machine counts less.
Of several runs the least counts. Machines differ, and virtual machines change their speed within an hour. So by_hand.cpp
is compiled beside the programs, and seconds are scaled to a machine on which by_hand.cpp takes REFERENCE_SECONDS.
What is above its limit is marked. `--check` writes nothing: it compiles one program of each kind, two at a time, and
fails if one is above its limit.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Program:
    """A source file with definitions, and what compiling it may cost."""

    name: str
    source: str
    defines: tuple[str, ...] = ()
    seconds: float | None = None
    megabytes: float | None = None
    plan_only: bool = False
    # Whether --check compiles it: one program of each kind, so that the tests stay short.
    checked: bool = False

    def within(self, seconds: float, megabytes: float, slack: float = 1) -> bool:
        """Whether both are at most what the program may take; `slack` times as many seconds."""
        return (self.seconds is None or seconds <= slack * self.seconds) and (self.megabytes is None or megabytes <= self.megabytes)


# The limits are seconds of a machine that compiles by_hand.cpp in this time.
REFERENCE = Program("the same as by_hand.cpp writes them", "by_hand.cpp")
REFERENCE_SECONDS = 5.1
# The speed of the machine is measured anew after so many seconds.
SPEED_LASTS = 60

PROGRAMS = [
    Program("headers of Kokkos and MPI alone", "compile/headers_alone.cpp"),
    REFERENCE,
    Program("example of the README", "README", seconds=6, megabytes=600, checked=True),
    Program("digits classifier, training and accuracy", "../examples/digits.cpp", seconds=12, megabytes=800),
    Program("Jacobi with a mask, repeat_until", "compile/jacobi.cpp", seconds=10, megabytes=650, checked=True),
    Program("CG as a loop, with its plan asserted", "compile/conjugate_gradient.cpp", seconds=12, megabytes=800),
    Program("vision transformer, training step and accuracy", "compile/vision_transformer.cpp", seconds=20, megabytes=1500),
    Program("its plan alone", "compile/vision_transformer.cpp", ("PLAN_ONLY",), 9, 1200, plan_only=True, checked=True),
    Program("decoder, 24 layers as a loop, training step", "compile/decoder.cpp", ("LAYERS=24", "DATA=2", "MODEL=2"), 15, 1200, checked=True),
    Program("MLP of 24 unrolled layers, training step", "compile/mlp_layers.cpp", ("LAYERS=24", "GRADIENT"), 15, 1000),
    Program("2-D sharded pipeline step, plan alone", "compile/pipeline_2d.cpp", (), 20, 1500, plan_only=True),
]
# How the cost grows: with nodes, layers, devices.
SERIES = {
    "nodes of a chain": [Program(str(n), "compile/chain.cpp", (f"LINKS={n // 4}",), plan_only=True) for n in (100, 300, 1000, 3000)],
    "unrolled layers, training step": [Program(str(n), "compile/mlp_layers.cpp", (f"LAYERS={n}", "GRADIENT")) for n in (1, 4, 8, 16, 24)],
    "layers of a loop, training step": [Program(str(n), "compile/decoder.cpp", (f"LAYERS={n}", "DATA=2", "MODEL=2")) for n in (2, 24)],
    "devices, 8 unrolled layers": [Program(str(d * m), "compile/mlp_layers.cpp", ("LAYERS=8", "GRADIENT", f"DATA={d}", f"MODEL={m}"))
                                   for d, m in ((2, 2), (64, 32), (1024, 1024))],
}
# What nine statements take more than one, for each of them.
STATEMENT = Program("a statement beyond the first", "compile/statements.cpp", seconds=0.15)


def flags_of(database: pathlib.Path, source: pathlib.Path) -> list[str]:
    """The compiler call of a source in compile_commands.json at -O2, without the source and the output."""
    for entry in json.loads(database.read_text(encoding="utf-8")):
        if pathlib.Path(entry["file"]).resolve() != source:
            continue
        words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word == "-o":
                skip = True
            elif word != "-c" and not word.startswith(("-O", "-march")) and not (
                    word.endswith(source.name) and pathlib.Path(word).resolve() == source):
                kept.append(word)
        return [*kept, "-O2"]
    sys.exit(f"{source.name} is not in {database.name}")


def compile_once(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MB of a compiler call."""
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"the compiler failed: {shlex.join(command)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


class Compiler:
    """Measures programs with the flags of a build."""

    def __init__(self, build: pathlib.Path, scratch: pathlib.Path, repeat: int) -> None:
        self.flags = flags_of(build / "compile_commands.json", HERE / "compile" / "mlp_layers.cpp")
        self.scratch, self.repeat = scratch, repeat
        self.readme: pathlib.Path | None = None
        self.speed, self.speed_at = 1.0, -math.inf

    def source_of(self, program: Program) -> pathlib.Path:
        if program.source != "README":
            return HERE / program.source
        if self.readme is None:
            subprocess.run([sys.executable, HERE.parent / "tests" / "readme" / "extract.py", "--into", self.scratch,
                            HERE.parent / "README.md"], check=True, stdout=subprocess.DEVNULL)
            self.readme = next(self.scratch.rglob("*example*.cpp"))
        return self.readme

    def call_of(self, program: Program) -> list[str]:
        command = [*self.flags, *(f"-D{d}" for d in program.defines), str(self.source_of(program))]
        return command + (["-fsyntax-only"] if program.plan_only else ["-c", "-o", str(self.scratch / "out.o")])

    def scale(self) -> float:
        """What seconds of this machine are multiplied by."""
        if time.monotonic() > self.speed_at + SPEED_LASTS:
            self.speed = REFERENCE_SECONDS / min(compile_once(self.call_of(REFERENCE))[0] for _ in range(2))
            self.speed_at = time.monotonic()
        return self.speed

    def measure(self, program: Program, enough=lambda seconds, megabytes: False) -> tuple[float, float]:
        """The least seconds, scaled, and MB of several runs; no further run once they are `enough`."""
        runs = []
        for _ in range(self.repeat):
            scale = self.scale()
            seconds, megabytes = compile_once(self.call_of(program))
            runs.append((scale * seconds, megabytes))
            if enough(*runs[-1]):
                break
            # A machine that became slower counts as slower in the next run.
            if not program.within(*runs[-1]):
                self.speed_at = -math.inf
        return min(r[0] for r in runs), min(r[1] for r in runs)


def check(build: pathlib.Path, scratch: pathlib.Path, slack: float) -> bool:
    """Compiles one program of each kind; whether all stay within their limits, and `slack` times the seconds.

    Two at a time, on two cores. Each measures the speed of the machine too, while the other's compiler runs, as it measures
    its programs. Other work on the machine may make a run slower, so there is a third try.
    """
    spare = [Compiler(build, pathlib.Path(tempfile.mkdtemp(dir=scratch)), 3) for _ in range(2)]

    def measured(program: Program) -> tuple[float, float]:
        compiler = spare.pop()
        try:
            return compiler.measure(program, lambda *values: program.within(*values, slack))
        finally:
            spare.append(compiler)

    fine = True
    # The longest begin first.
    programs = sorted((p for p in PROGRAMS if p.checked), key=lambda p: -p.seconds)
    with concurrent.futures.ThreadPoolExecutor(len(spare)) as pool:
        for program, values in zip(programs, pool.map(measured, programs)):
            within = program.within(*values, slack)
            fine = fine and within
            print(f"{program.name}: {values[0]:.2f} s and {values[1]:.0f} MB, at most {slack:g} x {program.seconds:g} s and "
                  f"{program.megabytes:g} MB{'' if within else '  ABOVE'}", flush=True)
    return fine


def report(compiler: Compiler, results: pathlib.Path) -> None:
    with results.open("a", encoding="utf-8") as out:

        def write(name: str, program: Program, values: tuple[float, float], **more) -> None:
            for what, value, unit, limit in zip(("", ", memory"), values, ("s", "MB"), (program.seconds, program.megabytes)):
                line = {"name": f"compile: {name}{what}", "value": round(value, 3), "unit": unit, **more}
                if limit is not None:
                    line["limit"] = limit
                out.write(json.dumps(line) + "\n")
            out.flush()
            print(f"compile: {name:<55} {values[0]:7.2f} s {values[1]:7.0f} MB"
                  f"{'' if program.within(*values) else '  ABOVE'}", flush=True)

        print(f"seconds are multiplied by {compiler.scale():.2f}: by_hand.cpp takes {REFERENCE_SECONDS / compiler.scale():.2f} s here", flush=True)
        for program in PROGRAMS:
            write(program.name, program, compiler.measure(program))
        one, nine = (compiler.measure(Program("", "compile/statements.cpp", (f"STATEMENTS={n}",))) for n in (1, 9))
        write(STATEMENT.name, STATEMENT, tuple((b - a) / 8 for a, b in zip(one, nine)))
        for series, programs in SERIES.items():
            for program in programs:
                write(f"{series}: {program.name}", program, compiler.measure(program), series=series, at=int(program.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path, nargs="?", help="the file that lines are appended to")
    parser.add_argument("--check", action="store_true", help="only compile one program of each kind; fails above a limit")
    parser.add_argument("--slack", type=float, default=1, help="allow --check so many times the seconds, on another or a busy machine")
    parser.add_argument("--build", required=True, type=pathlib.Path, help="the build folder, with compile_commands.json")
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    if not options.check and options.results is None:
        parser.error("results are missing")
    with tempfile.TemporaryDirectory() as scratch:
        if options.check:
            sys.exit(0 if check(options.build, pathlib.Path(scratch), options.slack) else 1)
        report(Compiler(options.build, pathlib.Path(scratch), options.repeat), options.results)


if __name__ == "__main__":
    main()
