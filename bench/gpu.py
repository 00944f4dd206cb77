#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds, tests and measures Cleave on this machine's GPU, and writes what came out into docs/gpu.md: versions, date, tests, times.

  python3 bench/gpu.py                    configure and build the preset gpu, run its tests and benchmarks, write docs/gpu.md
  python3 bench/gpu.py --only-build       all but what needs a GPU; docs/gpu.md is left alone
  python3 bench/gpu.py --only-run         what was built before, as on a cluster whose login nodes compile; writes docs/gpu.md
  python3 bench/gpu.py --page FILE        write another file

An installed Kokkos with CUDA is taken (CMAKE_PREFIX_PATH in the environment), else one is built. Further arguments go to `cmake`.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "gpu"
BEGIN, END = "<!-- measured: written by bench/gpu.py -->", "<!-- end of what was measured -->"


def run(*command: str, check: bool = True) -> subprocess.CompletedProcess:
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=ROOT, check=False)
    if check and done.returncode != 0:
        sys.exit(f"gpu.py: this failed with status {done.returncode}: {' '.join(command)}")
    return done


def output(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cached(name: str) -> str:
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", (BUILD / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def kokkos_version() -> str:
    file = pathlib.Path(cached("Kokkos_DIR")) / "KokkosConfigVersion.cmake"
    found = re.search(r'PACKAGE_VERSION "([^"]+)"', file.read_text(encoding="utf-8")) if file.exists() else None
    return found[1] if found else "of unknown version"


def versions() -> list[str]:
    gpu = output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").splitlines()
    nvcc = re.search(r"release ([0-9.]+)", output("nvcc", "--version"))
    mpi = output(cached("MPIEXEC_EXECUTABLE") or "mpiexec", "--version").splitlines()
    return [f"- GPU: {gpu[0] if gpu else 'none'} (name, driver, memory)",
            f"- nvcc {nvcc[1] if nvcc else '?'}, {output(cached('CMAKE_CXX_COMPILER'), '--version').splitlines()[0]}",
            f"- Kokkos {kokkos_version()}, {mpi[0] if mpi else 'MPI unknown'}",
            f"- Cleave {output('git', 'describe', '--always', '--dirty')}, {datetime.date.today().isoformat()}"]


def tests() -> list[str]:
    report = BUILD / "tests.xml"
    run("ctest", "--test-dir", str(BUILD), "--output-junit", str(report), "--timeout", "600", check=False)
    cases = re.findall(r'<testcase name="([^"]+)"[^>]*status="([^"]+)"', report.read_text(encoding="utf-8"))
    failed = [name for name, status in cases if status == "fail"]
    skipped = sum(status not in ("run", "fail") for _, status in cases)
    lines = [f"{len(cases) - skipped - len(failed)} of {len(cases)} tests passed, {skipped} were left out, {len(failed)} failed."]
    return lines + [f"- failed: `{name}`" for name in failed]


def times() -> list[str]:
    results = BUILD / "gpu.jsonl"
    results.unlink(missing_ok=True)
    run(cached("MPIEXEC_EXECUTABLE") or "mpiexec", "-n", "1", str(BUILD / "bench" / "gpu_time"), str(results))
    lines = ["| program | ms | reference ms | ratio |", "|---|---|---|---|"]
    for line in results.read_text(encoding="utf-8").splitlines():
        m = json.loads(line)
        lines.append(f"| {m['name']} | {m['value']:.4g} | {m['reference_value']:.4g} | {m['ratio']:.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--only-build", action="store_true")
    only.add_argument("--only-run", action="store_true")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "gpu.md")
    given, more = parser.parse_known_args()
    if not given.only_build and not output("nvidia-smi", "-L"):
        sys.exit("gpu.py: nvidia-smi finds no GPU here; --only-build builds without one")
    if given.only_run and not (BUILD / "CMakeCache.txt").exists():
        sys.exit(f"gpu.py: nothing is built in {BUILD}; --only-build builds it")
    if not given.only_run:
        run("cmake", "--preset", "gpu", *more)
        run("cmake", "--build", "--preset", "gpu", "--parallel")
    if given.only_build:
        return
    measured = [BEGIN, "", *versions(), "", *tests(), "", *times(), "", END]
    page = given.page.read_text(encoding="utf-8")
    before, after = page.index(BEGIN), page.index(END) + len(END)
    given.page.write_text(page[:before] + "\n".join(measured) + page[after:], encoding="utf-8")
    print(f"gpu.py: wrote {given.page}")


if __name__ == "__main__":
    main()
