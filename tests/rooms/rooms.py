#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the rooms of the library: a room is a folder of include/cleave, and includes point down only.

Rules, for every header:
  1. It includes headers of its own room, or of rooms on floors below: not above, and not beside (ROOMS, one floor a line).
  2. A room with narrower bounds keeps them (BOUNDS).
  3. The rooms of the partitioner include neither Kokkos nor MPI (WITHOUT_RUNTIME).
  4. The applications do not name cleave::detail, which belongs to other rooms; their own nested detail is theirs (APPLICATIONS).
  5. Headers do not include each other in a circle.
  6. All names lie in the inline namespace of the version, as include/cleave/version.hpp says.
  7. A header that names Kokkos or MPI includes them, itself or by others (RUNTIME_NAMES). Most builds do not compile headers without
     a precompiled header, which would hide this.
  8. A room has at most as many lines as its budget, and the core as many as CORE_BUDGET (BUDGET).
  9. A pass names no operation (PASSES): it asks the table of operations or the rules of their class. Arguments, literals and the marks of
     loops are the form of a graph, not operations (FORM).
  10. The old path of a header that moved includes the new one, for programs of users, and nothing else (MOVED). It is in no room.
What breaks a rule today and is meant to go stands in ALLOWED, DETAIL and NAMED, with a reason. An entry that is not needed any more is an
error too, so that these lists only shrink.
"""
import argparse
import pathlib
import re
import sys
import tempfile

# From the ground up. A header beside the folders, such as grid.hpp, is a room of its own.
ROOMS = [
    ["version"],
    ["base"],
    ["mesh"],
    ["layout"],
    ["type"],
    ["graph"],
    ["ops"],
    ["record", "cost"],
    ["program"],
    ["rules"],
    ["autodiff"],
    ["expr"],
    ["propagate"],
    ["plan"],
    ["storage"],
    ["comm", "kernels"],
    ["distributed", "node", "watch"],
    ["grid"],
    ["execute"],
    ["shards", "object", "checked"],
    ["tensor"],
    ["redistribute", "study", "simulate", "files"],
    ["nn", "optim", "linalg", "solve", "sparse", "stencil", "io", "interop", "show"],
    ["cleave"],
]
APPLICATIONS = ["nn", "optim", "linalg", "solve", "sparse", "stencil", "io", "interop", "show"]
PUBLIC = {"base", "mesh", "layout", "type", "record", "autodiff", "expr", "grid", "shards", "tensor"}
BOUNDS = {
    "files": {"base", "mesh", "layout", "type"},  # bytes, and no tensors
    "storage": {"base", "mesh", "layout", "type", "graph", "ops"},  # values, and nothing that records them
    "nn": PUBLIC,
    "optim": PUBLIC,
    "linalg": PUBLIC,
    "solve": PUBLIC,
    "sparse": PUBLIC,
    "stencil": PUBLIC,
    "io": PUBLIC | {"files", "redistribute"},
    "interop": PUBLIC | {"redistribute"},
    "show": PUBLIC | {"ops", "cost", "program", "plan", "study", "files"},
}
WITHOUT_RUNTIME = ["base", "mesh", "layout", "type", "graph", "ops", "record", "cost", "program", "rules", "autodiff", "expr",
                   "propagate", "plan", "study", "simulate", "files", "nn", "optim", "solve", "stencil", "show"]

# The most lines of a room. Whoever needs more deletes what the new lines replace, or raises the number in the same commit and says in
# its message what the lines buy. A number that is far above its room is lowered.
BUDGET = {
    "version": 50, "base": 1910, "mesh": 300, "layout": 1370, "type": 450, "graph": 1750, "ops": 1690, "record": 1050,
    "cost": 2570, "program": 2560, "rules": 2360, "autodiff": 550, "expr": 3980, "propagate": 250, "plan": 7150,
    "study": 2610, "simulate": 1860, "storage": 1600, "comm": 3850, "node": 940, "watch": 350, "kernels": 3840, "distributed": 1300, "grid": 200, "execute": 4530, "checked": 710,
    "shards": 50, "object": 150, "tensor": 2050, "redistribute": 1590, "files": 1630, "cleave": 50,
}
APPLICATION_BUDGET = 3000
# Above `tensor`, so a program that runs has none of them. Objects and shards for kernels of users, which no header of the core
# includes. And behind interfaces, which the core names at one place each: the transport
# and the watch that grid.hpp gives to a grid, and the checks that tensor/call.hpp gives to a call.
NOT_IN_CORE = [*APPLICATIONS, "redistribute", "study", "simulate", "files", "object", "shards", "node", "watch", "checked"]
CORE_BUDGET = 44999

PASSES = ["cost", "program", "propagate", "plan", "study", "comm", "distributed", "execute", "checked", "tensor", "redistribute"]
FORM = {"input", "constant", "identity", "carry", "loop_slice", "loop_yield", "loop_result", "loop_stack", "trip_count", "break_if"}
# By file: the operations that it names, and why.
NAMED: dict = {
    "plan/lower/emit.hpp": ("reshard", "names a copy by what users would write"),
    "execute/steps/sort.hpp": ("argsort recurrence searchsorted", "chooses the kernel of an operation of its class"),
}
OPERATION = re.compile(r"\bop::(\w+)")

MOVED = {f"tensor/{name}.hpp": f"redistribute/{name}.hpp" for name in ("bridge", "copy", "distributions", "slabs")}
MOVED["plan/explain.hpp"] = "study/explain_plan.hpp"

ALLOWED: dict = {}
# Lines of a file that name cleave::detail: at most so many.
DETAIL: dict = {}
# Neither list grows: whoever adds a line changes these numbers too, in sight of the reader of the change.
MOST_ALLOWED = 0
MOST_DETAIL = 0
MOST_NAMED = 4

INCLUDE = re.compile(r'\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
INCLUDE_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "include" / "cleave"
RUNTIME = re.compile(r"Kokkos|mpi\.h")
# What names them, outside of comments, directives and literals, and what then is included.
RUNTIME_NAMES = {"Kokkos": (re.compile(r"\bKokkos::"), re.compile(r"Kokkos")), "MPI": (re.compile(r"\bMPI_[A-Z]"), re.compile(r"mpi\.h"))}
LITERAL = re.compile(r'"[^"]*"')


def version_namespace() -> str:
    """The inline namespace of all names, which keeps versions with other ABIs apart in one program: v and the major version."""
    text = (INCLUDE_FOLDER / "version.hpp").read_text(encoding="utf-8")
    return "v" + re.search(r"#define CLEAVE_VERSION_MAJOR (\d+)", text).group(1)


def room_of(path: str) -> str:
    return path.split("/")[0] if "/" in path else path.removesuffix(".hpp")


def circle(includes: dict[str, list[str]]) -> list[str]:
    """The headers of one circle of includes, or nothing."""
    done: set[str] = set()

    def visit(path: str, way: list[str]) -> list[str]:
        if path in way:
            return way[way.index(path):] + [path]
        if path in done:
            return []
        for to in includes.get(path, []):
            if found := visit(to, way + [path]):
                return found
        done.add(path)
        return []

    for path in includes:
        if found := visit(path, []):
            return found
    return []


def reached(path: str, includes: dict[str, list[str]]) -> set[str]:
    """A header and all that it includes."""
    found, open_ones = {path}, [path]
    while open_ones:
        new = [to for to in includes.get(open_ones.pop(), []) if to not in found]
        found.update(new)
        open_ones += new
    return found


def over_budget(root: pathlib.Path, headers: dict) -> list[str]:
    """A sentence for each room that has more lines than it may have."""
    lines: dict[str, int] = {}
    for path in headers:
        count = len((root / path).read_text(encoding="utf-8").splitlines())
        lines[room_of(path)] = lines.get(room_of(path), 0) + count
    wrong = []
    for room, have in lines.items():
        most = APPLICATION_BUDGET if room in APPLICATIONS else BUDGET[room]
        if have > most:
            wrong.append(f"{room} has {have} lines, and its budget is {most}: delete what the new lines replace, or raise the budget in "
                         "tests/rooms/rooms.py and say in the commit what they buy")
    core = sum(have for room, have in lines.items() if room not in NOT_IN_CORE)
    if core > CORE_BUDGET:
        wrong.append(f"the core has {core} lines, and its budget is {CORE_BUDGET} (CORE_BUDGET in tests/rooms/rooms.py)")
    return wrong


def named_operations(root: pathlib.Path, headers: dict, named: dict) -> list[str]:
    """A sentence for each operation that a pass names and may not, and for each that stands in NAMED for nothing."""
    wrong = []
    for path in sorted({path for path in headers if room_of(path) in PASSES} | named.keys()):
        lines = (root / path).read_text(encoding="utf-8").splitlines() if path in headers else []
        code = "\n".join(LITERAL.sub("", line).split("//")[0] for line in lines)
        have, may = set(OPERATION.findall(code)) - FORM, set(named.get(path, ("", ""))[0].split())
        wrong += [f"{path}: names op::{code}; a pass asks the table of operations or the rules of their class" for code in sorted(have - may)]
        wrong += [f"{path}: does not name op::{code} any more: remove it from NAMED" for code in sorted(may - have)]
    return wrong


def check(root: pathlib.Path, allowed: dict = ALLOWED, detail: dict = DETAIL, operations: dict = NAMED) -> list[str]:
    """What is wrong with the headers below `root`, a sentence each."""
    floor = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    wrong, used, includes, outside, names = [], set(), {}, {}, {}
    named: dict[str, int] = {}
    version = version_namespace()
    for header in sorted(root.rglob("*.hpp")):
        path = header.relative_to(root).as_posix()
        room = room_of(path)
        if path in MOVED:
            code = [line.split("//")[0].rstrip() for line in header.read_text(encoding="utf-8").splitlines()]
            if [line for line in code if line] != ["#pragma once", f"#include <cleave/{MOVED[path]}>"]:
                wrong.append(f"{path}: has moved to {MOVED[path]}, and includes nothing but that")
            continue
        if room not in floor:
            wrong.append(f"{path}: the room {room} has no floor; give it one in tests/rooms/rooms.py")
            continue
        includes[path], outside[path], names[path] = [], [], {}
        for number, line in enumerate(header.read_text(encoding="utf-8").splitlines(), 1):
            if re.match(r"(inline )?namespace cleave\b", line) and not line.startswith(f"namespace cleave {{ inline namespace {version} {{"):
                wrong.append(f"{path}:{number}: opens cleave without the namespace of its version; write namespace cleave {{ inline namespace {version} {{")
            if room in APPLICATIONS and "cleave::detail::" in line:
                named[path] = named.get(path, 0) + 1
            match = INCLUDE.match(line)
            if not match:
                code = LITERAL.sub("", line).split("//")[0]
                for name, (named_by, _) in RUNTIME_NAMES.items():
                    if not code.lstrip().startswith("#") and named_by.search(code):
                        names[path].setdefault(name, number)
                continue
            target = match.group(1) or match.group(2)
            where = f"{path}:{number}: includes {target}"
            if room in WITHOUT_RUNTIME and RUNTIME.match(target):
                wrong.append(f"{where}, but {room}/ sees the standard library only")
            if not target.startswith("cleave/"):
                outside[path].append(target)
                if match.group(2):
                    wrong.append(f"{where} in quotes; headers are named from include/ on")
                continue
            target = target.removeprefix("cleave/")
            includes[path].append(target)
            other = room_of(target)
            if other == room:
                continue
            reason = ""
            if other not in floor:
                reason = f"whose room {other} has no floor"
            elif floor[other] > floor[room]:
                reason = f"which points up: {other} is above {room}"
            elif floor[other] == floor[room]:
                reason = f"which points sideways: {other} is beside {room}"
            elif room in BOUNDS and other not in BOUNDS[room]:
                reason = f"but {room} may include {', '.join(sorted(BOUNDS[room]))} only"
            if reason and (path, target) in allowed:
                used.add((path, target))
            elif reason:
                wrong.append(f"{where}, {reason}")
    wrong += [f"{path} does not include {target} any more: remove it from ALLOWED" for path, target in sorted(allowed.keys() - used)]
    for path in sorted(named.keys() | detail.keys()):
        have, most = named.get(path, 0), detail.get(path, (0, ""))[0]
        if have > most:
            wrong.append(f"{path}: {have} lines name cleave::detail, which belongs to other rooms; {most} are allowed")
        elif have < most:
            wrong.append(f"{path}: only {have} lines name cleave::detail: lower its number in DETAIL")
    for path, named_here in names.items():
        for name, number in named_here.items():
            included = RUNTIME_NAMES[name][1]
            if not any(included.match(target) for header in reached(path, includes) for target in outside.get(header, [])):
                wrong.append(f"{path}:{number}: names {name} and does not include it")
    wrong += over_budget(root, includes)
    wrong += named_operations(root, includes, operations)
    if found := circle(includes):
        wrong.append("a circle of includes: " + " -> ".join(found))
    return wrong


def self_test() -> list[str]:
    """Each rule, broken on purpose, must be seen."""
    cases = {
        "which points up": {"ops/a.hpp": "#include <cleave/plan/b.hpp>", "plan/b.hpp": ""},
        "which points sideways": {"comm/a.hpp": "#include <cleave/kernels/b.hpp>", "kernels/b.hpp": ""},
        "nn may include": {"nn/a.hpp": "  #  include <cleave/plan/b.hpp>", "plan/b.hpp": ""},
        "storage may include": {"storage/a.hpp": "#include <cleave/expr/b.hpp>", "expr/b.hpp": ""},
        "includes mpi.h, but plan/ sees": {"plan/a.hpp": "#include <mpi.h>"},
        "includes Kokkos_Core.hpp, but ops/ sees": {"ops/a.hpp": "#include <Kokkos_Core.hpp>"},
        "in quotes": {"ops/a.hpp": '#include "b.hpp"', "ops/b.hpp": ""},
        "names Kokkos and": {"comm/a.hpp": "Kokkos::View<int> x;"},
        "names MPI and": {"comm/a.hpp": "#include <cleave/base/b.hpp>\nMPI_Comm x;", "base/b.hpp": "#include <vector>"},
        "has no floor": {"attic/a.hpp": ""},
        "whose room attic": {"ops/a.hpp": "#include <cleave/attic/a.hpp>"},
        "without the namespace of its version": {"ops/a.hpp": "namespace cleave::detail {"},
        "1 lines name cleave::detail": {"optim/a.hpp": "auto x = cleave::detail::y;"},
        f"optim has {APPLICATION_BUDGET + 1} lines": {"optim/a.hpp": "\n" * APPLICATION_BUDGET},
        f"mesh has {BUDGET['mesh'] + 1} lines": {"mesh/a.hpp": "\n" * BUDGET["mesh"]},
        "a circle of includes: ops/a.hpp -> ops/b.hpp -> ops/a.hpp":
            {"ops/a.hpp": "#include <cleave/ops/b.hpp>", "ops/b.hpp": "#include <cleave/ops/a.hpp>"},
        "has moved to redistribute/slabs.hpp": {"tensor/slabs.hpp": "#pragma once\nint x;"},
        "names op::dot": {"plan/a.hpp": "if (n.code == op::dot || n.code == op::input) {}  // op::mul"},
    }
    wrong = []

    def tried(files: dict[str, str], **lists) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text + "\n", encoding="utf-8")
            return check(pathlib.Path(folder), **{"allowed": {}, "detail": {}, "operations": {}, **lists})

    for words, files in cases.items():
        found = tried(files)
        if len(found) != 1 or words not in found[0]:
            wrong.append(f"the self test expects '{words}' once and finds {found}")
    down = {"plan/a.hpp": "#include <cleave/ops/b.hpp>\n#include <vector>", "ops/b.hpp": 'f("MPI_Comm"); // Kokkos::View', "grid.hpp": "#include <mpi.h>",
            "tensor/a.hpp": "#include <cleave/grid.hpp>\n#define X MPI_Y\nMPI_Comm x;"}
    if found := tried(down):
        wrong.append(f"the self test finds fault with what is right: {found}")
    if not any("the core has" in found for found in tried({"plan/a.hpp": "\n" * CORE_BUDGET})):
        wrong.append("the self test does not see a core that is too large")
    up = ("ops/a.hpp", "plan/b.hpp")
    if found := tried({up[0]: f"#include <cleave/{up[1]}>", up[1]: ""}, allowed={up: ""}):
        wrong.append(f"the self test finds fault with what is allowed: {found}")
    if not any("remove it" in found for found in tried(down, allowed={up: ""})):
        wrong.append("the self test does not see an entry of ALLOWED that nothing needs")
    if not any("lower its number" in found for found in tried(down, detail={"nn/a.hpp": (1, "")})):
        wrong.append("the self test does not see an entry of DETAIL that nothing needs")
    if found := tried({"plan/a.hpp": "op::dot"}, operations={"plan/a.hpp": ("dot", "")}):
        wrong.append(f"the self test finds fault with an operation that may be named: {found}")
    if not any("remove it" in found for found in tried({"plan/a.hpp": ""}, operations={"plan/a.hpp": ("dot", "")})):
        wrong.append("the self test does not see an entry of NAMED that nothing needs")
    if sum(len(operations.split()) for operations, _ in NAMED.values()) > MOST_NAMED or not all(reason for _, reason in NAMED.values()):
        wrong.append("NAMED has grown or gives no reason; ask the table or the rules instead")
    if len(ALLOWED) > MOST_ALLOWED or sum(most for most, _ in DETAIL.values()) > MOST_DETAIL:
        wrong.append("ALLOWED or DETAIL has grown; fix the header instead")
    if not all(ALLOWED.values()) or not all(reason for _, reason in DETAIL.values()):
        wrong.append("an entry of ALLOWED or DETAIL gives no reason")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="check that broken rules are seen, and that the lists have not grown")
    arguments = parser.parse_args()
    wrong = self_test() if arguments.self_test else check(INCLUDE_FOLDER)
    print("\n".join(wrong) if wrong else "nothing is wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
