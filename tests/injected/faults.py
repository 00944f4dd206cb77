#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Injects 100 faults into a program under MPI, one at a time, and says what came of each.

    faults.py --run PROGRAM [--mpirun WORDS] [--only TEXT] [--quick]    runs them, or a subset; fails if one is not as expected
    faults.py                                                           writes docs/injected-faults.md
    faults.py --check                                                   says whether that page is up to date

injected.cpp is the program. Whatever happens, no rank computes a wrong value, and in checked mode no rank waits without end.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import generated_page  # noqa: E402  pylint: disable=wrong-import-position
from generated_page import ROOT, wrapped  # noqa: E402  pylint: disable=wrong-import-position

RANKS = 3
LIMIT = 2  # CLEAVE_TIME_LIMIT
WITHIN = 20  # seconds for a run in checked mode, with the launcher's
TRANSPORTS = ("auto", "mpi")
PAGE = ROOT / "docs" / "injected-faults.md"

# What may come of a fault: all values are right, or a rank says one of these.
RIGHT = "right"
LATE = r"did not arrive within 2 s|has waited for others within a call|the grid within 2 s"
CALLS = r"the ranks make different calls"
REPLICAS = r"differs between ranks 0 and 1"
FAILED = r"MPI_\w+ failed|a call of MPI failed|" + LATE
MEMORY = r"rank 1 cannot allocate"
BLAS = r"OpenBLAS error: Memory allocation"
DISK = r"File too large|No space|cannot be written|could not|\.tmp|step_"
ELSEWHERE = r"is at another place of the program"
ENVIRONMENT = r"means nothing on another rank|in the environment; it may be"
LOOP = r"differs between ranks|iterations"
LABEL = r"label -7 of row"
SAID = {LATE: "the others: `rank 1 did not arrive within 2 s at ...`, or, if it stopped within a call of MPI, the record of their calls",
        CALLS: "all ranks: `the ranks make different calls: ...`", REPLICAS: "all ranks: `argument ... differs between ranks 0 and 1`",
        FAILED: "`MPI_... failed`, and the others: `rank 1 did not arrive ...`", MEMORY: "all ranks: `rank 1 cannot allocate ...`",
        BLAS: "OpenBLAS ends the process, and the launcher the others",
        DISK: "all ranks: the file and what the system says", ENVIRONMENT: "all ranks: which variable, or that another rank has it",
        LOOP: "all ranks: `argument ... differs between ranks`", LABEL: "all ranks: `label -7 of row 0 is no index of dim 'col' ...`",
        RIGHT: "all values are right"}
PARTS = {1: "a sum", 2: "a map of replicas", 3: "an all-to-all", 4: "a look-up", 5: "a sort", 6: "neighbours", 7: "a product", 8: "`to_global`",
         9: "a loop", 10: "a loss", 11: "a new tensor", 12: "a checkpoint", 13: "the end of a round"}
FAULTS = []


def fault(group, name, expect, inject=None, quick=False, checked=True, transport="auto", files=False, **more):
    """Adds a fault. `expect`: sentences, one of which a rank says, or RIGHT; several: one of them."""
    FAULTS.append({"group": group, "name": name, "expect": expect if isinstance(expect, tuple) else (expect,), "quick": quick,
                   "checked": checked, "transport": transport, "files": files,
                   "environment": {**({"INJECT": inject} if inject else {}), **{k.upper(): str(v) for k, v in more.items()}}})


for way in TRANSPORTS:
    for mode in (True, False):
        for seed in range(1, 5):
            fault("Each call of MPI is late by up to 3 ms, at random", f"seed {seed}", RIGHT, inject_jitter=f"{seed}:3000", checked=mode,
                  transport=way, quick=seed == 1 and mode and way == "mpi")
        fault("Messages complete from the last to the first", "", RIGHT, inject_reversed=1, checked=mode, transport=way)
        fault("Messages complete from the last to the first, and are late", "", RIGHT, inject_reversed=1, inject_jitter="9:2000", checked=mode,
              transport=way)
for number in (10, 40):
    fault("Rank 1 is late by 1 s, within the limit", f"at call {number} of MPI", RIGHT, f"late:1:c{number}:1", transport="mpi")
for part in (3, 7):
    fault("Rank 1 is late by 1 s, within the limit", f"before {PARTS[part]}", RIGHT, f"late:1:p{part}:1")
for part, way in ((1, "auto"), (4, "mpi"), (9, "auto")):
    fault("Rank 1 is late by 9 s, beyond the limit", f"before {PARTS[part]}", LATE, f"late:1:p{part}:9", transport=way)
for what in ("stops", "loops", "leaves", "is killed"):
    for part, way in ((1, "auto"), (6, "mpi"), (8, "auto"), (11, "mpi")):
        expect = LATE if what != "is killed" else (LATE, r"signal 9|Killed")
        fault(f"Rank 1 {what}" if what != "loops" else "Rank 1 loops without end", f"before {PARTS[part]}", expect, f"{what}:1:p{part}",
              transport=way, quick=(what, part) == ("stops", 8))
for number in (3, 12, 30, 60, 90):
    fault("Rank 1 stops within a call of MPI", f"call {number}", LATE, f"stops:1:c{number}", transport="mpi", quick=number == 30)
for number in (4, 16, 36, 64):
    fault("A call of MPI fails on rank 1", f"call {number}", FAILED, f"fails:1:c{number}", transport="mpi")
for part in (2, 5, 10):
    fault("Rank 1 throws between two calls", f"before {PARTS[part]}", LATE, f"throws:1:p{part}")
fault("The kernel of the user throws on rank 1", "within a call", LATE, "the kernel throws:1:p1")
for part in (1, 3, 4, 5, 6, 7, 8, 9, 11):
    fault("Rank 1 has no memory left", f"before {PARTS[part]}", (MEMORY, BLAS, RIGHT) if part == 7 else (MEMORY, RIGHT), f"no memory:1:p{part}:0", quick=part == 5,
          transport="auto" if part % 2 else "mpi")
for size in (0, 100, 700, 2000):
    fault("The disk of rank 1 is full", f"after {size} bytes", (DISK, RIGHT) if size > 100 else DISK, f"full disk:1:p12:{size}", files=True, quick=size == 0)
fault("The disk is full, without checks", "after 100 bytes", DISK, "full disk:1:p12:100", files=True, checked=False)
for number, other in enumerate(("another literal", "another operation", "another layout of operations", "another order", "a call more"), 1):
    fault("Rank 1 has another binary", other, (CALLS, LATE), f"another binary:1:p1:{number}", quick=number == 1)
for variable in ("CLEAVE_TRANSPORT=mpi", "CLEAVE_CHECKED=off", "CLEAVE_TIME_LIMIT=9", "CLEAVE_OVERLAP=off", "CLEAVE_STORES=streaming",
                 "CLEAVE_NODE_RANKS=1", "OMP_NUM_THREADS=2"):
    fault("Rank 1 has another environment", variable, RIGHT, f"environment:1:{variable}", quick=variable == "CLEAVE_CHECKED=off")
for variable in ("CLEAVE_TRANSPORT=tcp", "CLEAVE_CHECKED=perhaps"):
    fault("Rank 1 has another environment", variable, ENVIRONMENT, f"environment:1:{variable}")
fault("Rank 1 has another environment, without checks", "CLEAVE_CHECKED=on", RIGHT, "environment:1:CLEAVE_CHECKED=on", checked=False)
fault("Rank 1 gives other arguments", "another number", REPLICAS, "another number:1:p2", quick=True)
fault("Rank 1 gives other arguments", "another element of a replica", REPLICAS, "another replica:1:p2")
fault("Rank 1 gives other arguments", "another tolerance of a loop", LOOP, "another tolerance:1:p9")
fault("Rank 1 gives other arguments", "a label that is none", LABEL, "another label:1:p10")
fault("Rank 1 gives other arguments", "other extents", r"extent|differ", "other extents:1:p11")
fault("Rank 1 makes other calls", "one less", CALLS, "skips:1:p3")
fault("Rank 1 makes other calls", "one twice", CALLS, "calls twice:1:p3")
for part in (6, 9):
    fault("Rank 1 makes other calls", f"two more before {PARTS[part]}", CALLS, f"swaps:1:p{part}")
for part, way in ((2, "mpi"), (7, "auto")):
    fault("Rank 1 stops, without checks", f"before {PARTS[part]}", "waits", f"stops:1:p{part}", checked=False, transport=way)


def outcome(program, mpirun, which):
    """What came of a fault: whether that is as expected, a text, and the output."""
    within = WITHIN if which["checked"] else 8 if which["expect"] == ("waits",) else 40
    folder = tempfile.mkdtemp(prefix="cleave_injected_")
    environment = {**os.environ, "CLEAVE_TRANSPORT": which["transport"], "CLEAVE_CHECKED": "on" if which["checked"] else "off",
                   "OMP_NUM_THREADS": "1", "KOKKOS_DISABLE_WARNINGS": "true", **which["environment"]}
    if which["checked"]:
        environment["CLEAVE_TIME_LIMIT"] = str(LIMIT)
    command = [*mpirun, str(RANKS), program, *([folder + "/run"] if which["files"] else [])]
    # A shell stays where a killed process was, so that the launcher does not see it die.
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as run:
        try:
            output, hung = run.communicate(timeout=within)[0], False
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            output, hung = run.communicate()[0], True
    shutil.rmtree(folder, ignore_errors=True)
    if "wrong value" in output:
        return False, "a wrong value", output
    if hung:
        return which["expect"] == ("waits",), "waits without end", output
    if run.returncode == 0 and len(re.findall("all is right", output)) == RANKS:
        return RIGHT in which["expect"], "right", output
    if re.search(r"Segmentation fault|Aborted|Bus error", output):
        return False, "a crash", output
    said = re.search("|".join(e for e in which["expect"] if e not in (RIGHT, "waits")) or "$^", output)
    line = said and output[output.rfind("\n", 0, said.start()) + 1:output.find("\n", said.start())]
    return run.returncode != 0 and said is not None, line or "another error", output


def run_all(options):
    """Runs the faults; the exit status."""
    chosen = [f for f in FAULTS if (f["quick"] or not options.quick) and options.only in f["group"] + ": " + f["name"]]
    wrong = 0
    for which in chosen:
        begin = time.monotonic()
        fine, text, output = outcome(options.run, shlex.split(options.mpirun), which)
        name = ", ".join(x for x in (which["group"], which["name"], which["transport"], "checked" if which["checked"] else "unchecked") if x)
        print(f"{'fine' if fine else 'WRONG'} {time.monotonic() - begin:4.1f} s  {name}: {text}", flush=True)
        if not fine:
            wrong += 1
            print(output, flush=True)
    print(f"injected faults: {len(chosen)}, wrong {wrong}")
    return 1 if wrong or not chosen else 0


def page():
    """The page of the documents."""
    lines = ["# Injected faults", "", wrapped(
        f"`tests/injected/faults.py` injects {len(FAULTS)} faults into a program of {RANKS} ranks with every kind of communication, one at a "
        "time, and fails if a value is wrong, if a rank waits without end in checked mode, or if it says something else than this table. "
        f"It is generated from the list of the faults. The time limit is {LIMIT} s. All of them run with one command, and some of them in CI:"),
        "", "```sh", "python3 tests/injected/faults.py --run build/test/tests/cleave_injected", "```", "",
        "| fault | where | transport | mode | what happens |", "|---|---|---|---|---|"]
    seen = {}
    for f in FAULTS:
        said = " or ".join(SAID.get(e, "the others wait without end" if e == "waits" else "all ranks: the two calls or extents" if "extent" in e
                                    else "the launcher ends the job") for e in f["expect"])
        seen.setdefault((f["group"], f["transport"], f["checked"], said), []).append(f["name"])
    for (group, way, checked, said), names in seen.items():
        where = ", ".join(f"`{n}`" if "=" in n else n for n in names if n)
        lines.append(f"| {group} | {where} | {'any' if way == 'auto' else 'MPI'} | {'checked' if checked else 'unchecked'} | {said} |")
    lines += ["", wrapped("Without checked mode ranks that make different calls, or that wait for a rank that is lost, may wait without end "
                          "([which rank hangs](28-which-rank-hangs.md)). Ranks with other numbers or replicas then compute with other values: "
                          "only checked mode compares them, so these faults are injected in checked mode.")]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="the program cleave_injected")
    parser.add_argument("--mpirun", default="mpiexec --oversubscribe -n", help="what starts it; the number of ranks follows")
    parser.add_argument("--only", default="", help="faults whose name contains the text")
    parser.add_argument("--quick", action="store_true", help="the subset of CI")
    parser.add_argument("--check", action="store_true", help="whether the page is up to date")
    options = parser.parse_args()
    if options.run:
        return run_all(options)
    return generated_page.main(__file__, __doc__, PAGE, page)


if __name__ == "__main__":
    sys.exit(main())
