#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seeds faults in a copy of the headers, one at a time, and reports which of them the tests catch. Not part of CI.

  tests/faults/seed.py --work DIR [--build BUILD] [--only TEXT] [--files NAMES] [--first] [--again] [--list]

faults.py lists the faults. Most are compiled beside what they replace, with a switch that the environment sets when a
program runs (CLEAVE_SEEDED_FAULT=number), so that one build of a program serves for all of them. The switch is off in
constant evaluation: plans that the compiler makes are sound, and passes are tested where they run at run time, as in
the unit tests, the fuzzer and the oracle. Faults in tables that only the compiler reads (`constant`) take a build each,
of one test.

  --work DIR    where the copy, the programs and the results are; kept, so that a run that was stopped goes on
  --build DIR   a configured build folder of the project, from whose compile commands the programs under MPI take their
                flags; without it those faults are left out
  --only TEXT   only faults whose file or test contains the text
  --files NAMES the unit tests that are built (gradient_test,loops_test,...); all by default; none
  --mpi NAMES   the same for tests/mpi
  --first       only the test that should catch a fault, not the others after it: quick; `missed` are those that it does
                not catch
  --again       forgets the results so far
  --list        prints the faults and stops; fails where a header no longer has the text of a fault

A fault is `caught` if a test fails, crashes, or takes much more processor time than it does without the fault; the test that should
catch it is tried first, and the others after it. `survived` asks for a test, unless the fault changes nothing.
tests/README.md has the last numbers.
"""
import argparse
import gzip
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
SWITCH = """#pragma once
#include <cstdlib>
#include <type_traits>
inline const int cleave_seeded_fault = [] {
  const char* number = std::getenv("CLEAVE_SEEDED_FAULT");
  return number == nullptr ? -1 : std::atoi(number);
}();
constexpr bool cleave_seeded(int number) {
  if (std::is_constant_evaluated()) return false;
  return number == cleave_seeded_fault;
}
"""
# What the fuzzer is run with: as the tests `fuzz` and `recorded_programs` run it.
TESTS = (ROOT / "tests/CMakeLists.txt").read_text()
FUZZ = re.search(r"COMMAND cleave_fuzz (--seed[^)]*)\)", TESTS)[1].split()
REPLAY = ["--replay", "", *re.search(r"programs.jsonl.gz\" (--above[^)]*)\)", TESTS)[1].split()]
LIMITS = "-fconstexpr-ops-limit=1000000000 -fconstexpr-loop-limit=10000000".split()
# Ranks on which programs under MPI run.
RANKS = (1, 2, 3, 4)
# How much longer than without a fault a test may take, in seconds of processor time and as a factor; and how long in
# all, which a machine that others use needs.
PATIENCE = (10, 5)
LONGEST = 900


def place_of(fault, text):
    """Where the text of a fault begins in its file."""
    at, count = -1, fault["nth"] or 0
    for _ in range(count + 1):
        at = text.find(fault["old"], at + 1)
        if at < 0:
            sys.exit(f"seed.py: {fault['file']} has no {fault['old']!r} any more: fix faults.py")
    if fault["nth"] is None and text.find(fault["old"], at + 1) >= 0:
        sys.exit(f"seed.py: {fault['file']} has {fault['old']!r} more than once")
    return at


def switched(text, faults):
    """The text of a file with switches for its faults."""
    by_place = {}
    for number, fault in faults:
        by_place.setdefault((place_of(fault, text), fault["old"]), []).append((number, fault))
    places = sorted(by_place)
    for (first, old), (second, _) in zip(places, places[1:]):
        if first + len(old) > second:
            sys.exit(f"seed.py: faults overlap at {old!r}")
    for at, old in reversed(places):
        made = f"({old})" if by_place[at, old][0][1]["how"] == "expression" else f"{{ {old} }}"
        for number, fault in by_place[at, old]:
            if fault["how"] == "expression":
                made = f"(::cleave_seeded({number}) ? ({fault['new']}) : {made})"
            else:
                made = f"{{ if (::cleave_seeded({number})) {{ {fault['new']} }} else {made} }}"
        text = text[:at] + made + text[at + len(old):]
    return text


class Session:
    def __init__(self, arguments):
        self.work = Path(arguments.work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.build = Path(arguments.build).resolve() if arguments.build else None
        self.units = self.chosen("unit", arguments.files)
        self.mpi = self.chosen("mpi", arguments.mpi)
        self.results_file = self.work / "results.json"
        if arguments.again:
            self.results_file.unlink(missing_ok=True)
        self.results = json.loads(self.results_file.read_text()) if self.results_file.exists() else {}
        self.baseline = {}
        self.first = arguments.first
        records = self.work / "programs.jsonl"
        records.write_bytes(gzip.decompress((ROOT / "tests/oracle/programs.jsonl.gz").read_bytes()))
        REPLAY[1] = str(records)

    @staticmethod
    def chosen(folder, names):
        every = sorted(p.stem for p in (ROOT / "tests" / folder).glob("*.cpp"))
        return every if not names else [n for n in names.split(",") if n in every]

    # Copies and programs.

    def copy_headers(self, where, change):
        """A copy of the headers in which `change` has changed some; untouched files keep their times."""
        for source in (ROOT / "include").rglob("*.hpp"):
            name = source.relative_to(ROOT / "include")
            target = where / name
            text = change(str(name.relative_to("cleave")) if name.parts[0] == "cleave" else str(name), source.read_text())
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_text() != text:
                target.write_text(text)
        switch = where / "cleave_seeded.hpp"
        if not switch.exists() or switch.read_text() != SWITCH:
            switch.write_text(SWITCH)

    def compile(self, command, output, log):
        """Compiles unless nothing changed: dependencies are those that the compiler noted."""
        notes = output.with_suffix(output.suffix + ".d")
        if output.exists() and notes.exists():
            words = notes.read_text().replace("\\\n", " ").split(":", 1)[1].split()
            stamp = output.stat().st_mtime
            if all(os.path.exists(w) and os.stat(w).st_mtime <= stamp for w in words):
                return True
        begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(command + ["-MMD", "-MF", str(notes), "-o", str(output)], cwd=ROOT, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        log.write_text(done.stdout)
        print(f"  {output.name}: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin:.0f} s{'' if done.returncode == 0 else ', FAILED'}", flush=True)
        return done.returncode == 0

    def plain_flags(self, headers, level):
        return ["g++", "-std=c++20", level, "-w", *LIMITS, "-include", str(headers / "cleave_seeded.hpp"), "-I", str(headers),
                "-I", str(ROOT / "tests"), "-I", str(ROOT)]

    def object_of(self, headers, folder, name, level):
        objects = headers.parent / "objects"
        objects.mkdir(exist_ok=True)
        output = objects / f"{folder}_{name}.o"
        source = str(ROOT / "tests" / folder / f"{name}.cpp")
        command = self.mpi_flags(headers, name) if folder == "mpi" else self.plain_flags(headers, level)
        return output if self.compile(command + ["-c", source], output, output.with_suffix(".log")) else None

    def mpi_flags(self, headers, name):
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            if entry["file"].endswith(f"tests/mpi/{name}.cpp") and "sanitized" not in entry["command"]:
                break
        else:
            sys.exit(f"seed.py: {self.build} does not compile tests/mpi/{name}.cpp")
        kept, words = [], iter(shlex.split(entry["command"]))
        for word in words:
            if word in ("-o", "-c", "-include"):
                next(words)
            elif "ccache" not in word and not word.startswith(("-O", "-Winvalid-pch", "-fpch", "-Werror", "-E", "CCACHE")) \
                    and not word.endswith(("cmake", "env", ".cpp")):
                kept.append(word if not re.fullmatch(r"-I.*/include", word) or "/" not in word or "cleave" in word else word)
        headers_flag = f"-I{headers}"
        return [kept[0], "-include", str(headers / "cleave_seeded.hpp"), headers_flag, *kept[1:], "-w", "-O0"]

    def link(self, objects, output, libraries):
        if output.exists() and all(o.stat().st_mtime <= output.stat().st_mtime for o in objects):
            return output
        done = subprocess.run(["g++", *map(str, objects), "-o", str(output), *libraries], cwd=ROOT, check=False)
        return output if done.returncode == 0 else None

    def mpi_libraries(self):
        words = shlex.split((self.build / "tests/CMakeFiles/cleave_mpi.dir/link.txt").read_text())
        folder = self.build / "tests"
        found = []
        for word in words[1:]:
            if word.startswith(("-l", "-L", "-Wl")):
                found.append(word)
            elif re.search(r"\.(a|so)(\.|$)", word) and not word.endswith(".o"):
                found.append(str((folder / word).resolve()) if not word.startswith("/") else word)
        return ["-fopenmp", *found]

    def programs(self, headers, chosen):
        """The programs by name that the chosen faults may be tried on; None where they do not compile."""
        made = {}
        named = {f["test"].partition(":")[0] for _, f in chosen}
        plain = named != {"mpi"}
        for name, source in (("fuzz", "fuzz/cleave_fuzz"), ("oracle", "oracle/cleave_oracle")):
            if not plain or (self.first and name not in named):
                continue
            folder, stem = source.split("/")
            made_object = self.object_of(headers, folder, stem, "-O1")
            made[name] = made_object and self.link([made_object], headers.parent / name, [])
        objects = [self.object_of(headers, "unit", u, "-O1") for u in self.units if plain]
        if objects:
            made["unit"] = self.link([o for o in objects if o], headers.parent / "unit", ["-lgtest", "-lgtest_main", "-lpthread"])
        if self.build and "mpi" in named:
            objects = [self.object_of(headers, "mpi", m, "-O0") for m in self.mpi]
            made["mpi"] = self.link([o for o in objects if o], headers.parent / "mpi", self.mpi_libraries())
        return made

    # Runs.

    @staticmethod
    def commands(program, path, pattern):
        if program == "fuzz":
            return [[str(path), *FUZZ], [str(path), *REPLAY]]
        if program == "oracle":
            return [[str(path), "tests/oracle/cases.json"]]
        only = f"--gtest_filter={pattern}"
        if program == "unit":
            return [[str(path), only, "--gtest_fail_fast", "--gtest_brief=1"]]
        return [["mpirun", "-n", str(n), "--bind-to", "none", str(path), only, "--gtest_brief=1"] for n in RANKS]

    @staticmethod
    def key_of(program, command):
        """Under which name the time of a command is kept: of a test alone it is at most that of all."""
        return " ".join(command[:{"mpi": 3, "fuzz": 2}.get(program, 1)])

    def run(self, command, number, limit):
        environment = {**os.environ, "CLEAVE_SEEDED_FAULT": str(number), "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false",
                       "KOKKOS_DISABLE_WARNINGS": "true", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                       "OMPI_MCA_plm_rsh_agent": "false"}
        # Processor time, since others may use the machine. Ranks wait for each other, so that each has a limit.
        seconds_at_most = int(limit) + 1

        def limited():
            resource.setrlimit(resource.RLIMIT_CPU, (seconds_at_most, seconds_at_most + 5))

        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=limited)
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return "takes too long", LONGEST
        output = output.decode(errors="replace")
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        status = process.returncode
        if status in (-24, -9, 152, 137):
            return "takes too long", seconds
        if command[1:2] == ["tests/oracle/cases.json"] and status == 0:
            # The oracle's last line has what its plans move, beside those of GSPMD.
            line = output.strip().splitlines()[-1] if output.strip() else ""
            known = self.baseline.get("oracle line")
            if known and line != known:
                return f"other totals: {line}", seconds
            self.baseline["oracle line"] = known or line
        if status == 0:
            return None, seconds
        said = [l for l in output.splitlines() if re.search(r"FAILED|Failure|wrong [1-9]|rror|above", l)]
        return f"status {status}: {said[0][:120] if said else ''}", seconds

    def limit_of(self, key):
        base = self.baseline.get(key, 60)
        return base + PATIENCE[0] + PATIENCE[1] * base

    def tests_for(self, fault):
        """Programs and filters: the test that should catch it, and then the others."""
        program, _, pattern = fault["test"].partition(":")
        first = [(program, pattern or "*")]
        if self.first:
            return first
        if program == "mpi":
            return first + ([("mpi", "*")] if pattern not in ("", "*") else [])
        rest = [("fuzz", "*"), ("unit", "*"), ("oracle", "*")]
        return first + [r for r in rest if r != first[0]]

    def judge(self, number, fault, programs):
        for program, pattern in self.tests_for(fault):
            if not programs.get(program):
                continue
            for command in self.commands(program, programs[program], pattern):
                key = self.key_of(program, command)
                why, _ = self.run(command, number, self.limit_of(key))
                if why:
                    return "caught", f"{program}:{pattern} {why}"
        return ("missed" if self.first else "survived"), ""

    def judge_constant(self, fault):
        """A build of one test with the fault in place."""
        headers = self.work / "alone" / "include"
        place = place_of(fault, (ROOT / "include/cleave" / fault["file"]).read_text())
        self.copy_headers(headers, lambda name, text: text if name != fault["file"] else
                          text[:place] + fault["new"] + text[place + len(fault["old"]):])
        program, _, pattern = fault["test"].partition(":")
        if program == "unit":
            suite = pattern.split(".")[0]
            names = [u for u in self.chosen("unit", "") if re.search(rf"TEST(_F)?\({re.escape(suite)},",
                                                                      (ROOT / f"tests/unit/{u}.cpp").read_text())]
            libraries = ["-lgtest", "-lgtest_main", "-lpthread"]
        else:
            names, libraries = ["cleave_" + program], []
        objects = [self.object_of(headers, program, n, "-O1") for n in names]
        if None in objects:
            logs = "".join((headers.parent / "objects" / f"{program}_{n}.log").read_text() for n in names)
            return ("caught", "compiler: a static_assert") if "static assertion" in logs else ("does not compile", logs[-300:])
        path = self.link(objects, headers.parent / program, libraries)
        for command in self.commands(program, path, pattern):
            why, _ = self.run(command, -1, 300)
            if why:
                return "caught", f"{program}:{pattern} {why}"
        return "survived", ""

    def measure(self, programs):
        """How long everything takes without a fault, which all must pass."""
        for program, path in programs.items():
            if not path:
                print(f"seed.py: {program} was not built")
                continue
            for command in self.commands(program, path, "*"):
                why, seconds = self.run(command, -1, LONGEST)
                key = self.key_of(program, command)
                self.baseline[key] = seconds
                print(f"  {key.replace(str(self.work) + '/', '')}: {seconds:.1f} s {why or ''}", flush=True)
                if why:
                    sys.exit("seed.py: a test fails without a fault")

    def keep(self, fault, verdict):
        self.results[self.key(fault)] = {"verdict": verdict[0], "how": verdict[1], "file": fault["file"]}
        self.results_file.write_text(json.dumps(self.results, indent=1))

    @staticmethod
    def key(fault):
        return f"{fault['file']}: {fault['old']} -> {fault['new']} ({fault['nth'] or 0})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="")
    parser.add_argument("--build", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--files", default="")
    parser.add_argument("--mpi", default="")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = [(n, f) for n, f in enumerate(FAULTS) if arguments.only in f["file"] or arguments.only in f["test"]]
    for _, f in chosen:
        place_of(f, (ROOT / "include/cleave" / f["file"]).read_text())
    if arguments.list or not arguments.work:
        for n, f in chosen:
            print(f"{n:4} {f['how']:10} {f['file']}: {f['old'].splitlines()[0][:70]}  [{f['test']}]")
        return 0
    s = Session(arguments)
    by_file = {}
    for n, f in enumerate(FAULTS):
        if f["how"] != "constant":
            by_file.setdefault(f["file"], []).append((n, f))
    headers = s.work / "switched" / "include"
    s.copy_headers(headers, lambda name, text: switched(text, by_file[name]) if name in by_file else text)
    programs = s.programs(headers, chosen)
    s.measure(programs)
    for n, f in chosen:
        if s.key(f) in s.results and s.results[s.key(f)]["verdict"] not in ("survived", "missed"):
            continue
        if f["test"].startswith("mpi") and not programs.get("mpi"):
            continue
        verdict = s.judge_constant(f) if f["how"] == "constant" else s.judge(n, f, programs)
        s.keep(f, verdict)
        print(f"{n:4} {verdict[0]:16} {f['file']}: {f['old'].splitlines()[0][:60]}  {verdict[1][:90]}", flush=True)
    told = [s.results[s.key(f)]["verdict"] for _, f in chosen if s.key(f) in s.results]
    print("seed.py: faults", len(chosen), ", ".join(f"{v} {told.count(v)}" for v in ("caught", "missed", "survived", "does not compile")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
