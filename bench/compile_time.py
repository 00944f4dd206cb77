#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles programs with the compiler and flags of the build, and writes seconds and peak memory as lines of JSON.

Seconds are those that the compiler's processes ran, so that other work on the machine counts less; of several runs the least.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def command_of(database: pathlib.Path, source: pathlib.Path) -> list[str]:
    """The compiler call of a source in compile_commands.json, without the source and the output."""
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
            elif word != "-c" and not (word.endswith(source.name) and pathlib.Path(word).resolve() == source):
                kept.append(word)
        return kept
    sys.exit(f"{source.name} is not in {database.name}")


def compile_once(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MB of a compiler call."""
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"the compiler failed: {shlex.join(command)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path, nargs="?", help="the file that lines are appended to")
    parser.add_argument("--check", action="store_true", help="only compile a Transformer of 24 layers; fails above its limits")
    parser.add_argument("--build", required=True, type=pathlib.Path, help="the build folder, with compile_commands.json")
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()

    decoder = HERE / "compile" / "decoder.cpp"
    limits = 60, 4096  # seconds and MB
    if options.check:
        flags = command_of(options.build / "compile_commands.json", decoder)
        fine = False
        with tempfile.TemporaryDirectory() as scratch:
            for _ in range(3):  # other work on the machine may make it slower
                seconds, memory = compile_once([*flags, "-DLAYERS=24", "-DDATA=2", "-DMODEL=2", "-c", str(decoder), "-o", str(pathlib.Path(scratch) / "out.o")])
                print(f"24 layers: {seconds:.1f} s and {memory:.0f} MB, at most {limits[0]} s and {limits[1]} MB", flush=True)
                fine = seconds <= limits[0] and memory <= limits[1]
                if fine or memory > limits[1]:
                    break
        sys.exit(0 if fine else 1)
    if options.results is None:
        parser.error("results are missing")

    source = HERE / "compile" / "mlp_layers.cpp"
    flags = command_of(options.build / "compile_commands.json", source)
    headers = HERE / "compile" / "headers_alone.cpp"
    with tempfile.TemporaryDirectory() as scratch, options.results.open("a", encoding="utf-8") as out:
        subprocess.run([sys.executable, HERE.parent / "tests" / "readme" / "extract.py", "--into", scratch, HERE.parent / "README.md"],
                       check=True, stdout=subprocess.DEVNULL)
        readme = next(pathlib.Path(scratch).rglob("*example*.cpp"))

        def measured(name: str, file: pathlib.Path, *defines: str, reference: tuple[str, float, float] | None = None,
                     limit: float | None = None, most: tuple[float, float] | None = None) -> tuple[str, float, float]:
            runs = [compile_once([*flags, *defines, "-c", str(file), "-o", str(pathlib.Path(scratch) / "out.o")])
                    for _ in range(options.repeat)]
            seconds, memory = min(r[0] for r in runs), min(r[1] for r in runs)
            for what, value, unit, index in (("", seconds, "s", 1), (", memory", memory, "MB", 2)):
                line = {"name": f"compile: {name}{what}", "value": round(value, 3), "unit": unit}
                if reference:
                    line |= {"reference": reference[0], "reference_value": round(reference[index], 3),
                             "ratio": round(value / reference[index], 4)}
                if limit:
                    line["limit_ratio"] = limit
                if most:
                    line["limit"] = most[index - 1]
                out.write(json.dumps(line) + "\n")
            out.flush()
            print(f"compile: {name:<42} {seconds:7.2f} s {memory:7.0f} MB", flush=True)
            return name, seconds, memory

        base = measured("headers of Kokkos and MPI alone", headers)
        by_hand = measured("by_hand.cpp", HERE / "by_hand.cpp", reference=base)
        measured("README example", readme, reference=base)
        measured("digits classifier", HERE.parent / "examples" / "digits.cpp", reference=by_hand)
        for layers in (1, 8, 24):
            measured(f"mlp of {layers} layers, forward", source, f"-DLAYERS={layers}", reference=base)
        for layers in (1, 8, 24):
            measured(f"mlp of {layers} layers, training step", source, f"-DLAYERS={layers}", "-DGRADIENT", reference=base)
        small = None
        for data, model in ((2, 2), (64, 32), (1024, 1024)):
            this = measured(f"mlp of 8 layers on {data} x {model} devices", source, "-DLAYERS=8", "-DGRADIENT", f"-DDATA={data}", f"-DMODEL={model}",
                            reference=small, limit=1.1 if small else None)
            small = small or this
        for layers, data, model in ((2, 2, 2), (24, 2, 2), (24, 1024, 1024)):
            measured(f"Transformer, a loop of {layers} layers, on {data} x {model} devices", decoder, f"-DLAYERS={layers}", f"-DDATA={data}", f"-DMODEL={model}",
                     reference=base, most=limits)


if __name__ == "__main__":
    main()
