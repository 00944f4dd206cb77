#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/errors.md: every fault and every exception, with its sentence, an example and a remedy.

Nothing is written twice. Faults and their sentences come from base/fault_list.hpp. Examples and remedies come from the programs in this folder (their lines `// expect:` and `// fix:`, see check.py). Exceptions come from
base/error.hpp, and their sentences from the errors.hpp of each room and from base/error.hpp, where `/// fix:` stands above each
sentence. With --check nothing is written; the script fails if the page is out of date.
"""
import pathlib
import re
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import generated_page  # noqa: E402
from generated_page import ROOT, Wrong, read, wrapped  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = ROOT / "include" / "cleave"
PAGE = ROOT / "docs" / "errors.md"

# Faults that no small program shows, with their remedies.
WITHOUT_PROGRAM = {
    "too_many_nodes": "Plan the computation as several functions, or replace many similar operations by one `sum` or `dot` over another dim.",
    "view_out_of_reach": "Copy the data into a View of the default execution space first, with "
                         "`Kokkos::create_mirror_view_and_copy`, and wrap that one.",
    "internal": "Your program is correct; this is a fault of the library. Until it is fixed, a `constrain` on intermediate values may lead the "
                "planner to another plan.",
}
# Static assertions about the library itself, which no user program reaches.
OF_THE_LIBRARY = re.compile(r"cleave: not an (elementwise )?op of ")

ROLES = {"op": "the operation", "dim": "the dim", "axis": "the axis", "collective": "the collective", "repair": "the repair"}


def sentences() -> dict[str, str]:
    """The sentences of the faults, in the order of their list."""
    # A long sentence is several literals.
    found = re.findall(r'^CLEAVE_FAULT\(\s*(\w+),\s*((?:"[^"]*"\s*)+)\)', read(HEADERS / "base" / "fault_list.hpp"), re.MULTILINE)
    return {fault: "cleave: " + "".join(re.findall(r'"([^"]*)"', literals)) for fault, literals in found}


class Program:
    def __init__(self, path: pathlib.Path):
        self.name = path.stem
        self.words: list[str] = []
        self.fix = ""
        telling: list[str] = []
        for line in read(path).splitlines():
            note = re.match(r"//\s*([\w-]+):\s*(.*)", line)
            if note and note.group(1).startswith("expect"):
                if note.group(1) == "expect":
                    self.words += shlex.split(note.group(2), posix=True)
            elif note and note.group(1) == "fix":
                self.fix = f"{self.fix} {note.group(2)}".strip()
            # What every program has, and what only shows that there is no second error.
            elif not re.match(r"//|#include|using namespace|(inline )?namespace|\} // namespace|int main|static_assert\(plan", line):
                telling.append(re.sub(r"//\s*here\s*$", "// <- here", line))
        self.lines = re.sub(r"\n{3,}", "\n\n", "\n".join(telling)).strip("\n")

    def facts(self, fault: str) -> str:
        found = []
        for word in self.words:
            role, _, name = word.partition("=")
            number = re.fullmatch(r"(expected|got)<(-?\d+)>", word)
            if word == "line<@here>":
                found.append("your line")
            elif re.fullmatch(r"[\w]+\.cpp:@here:?", word):
                found.append("your line (where the compiler says who instantiated the template)")
            elif role in ROLES and name:
                found.append(f"{ROLES[role]} `{name}`")
            elif number:
                found.append(f"{number.group(1)} `{number.group(2)}`")
            elif word.startswith(fault + ", "):
                found += [f"the type `{name}`" for name in word.split(", ")[1:]]
        return ", ".join(found)

    def telling_words(self) -> list[str]:
        return [word for word in self.words if " " in word and not re.match(r"\w+=|\w+, ", word)]


def programs() -> dict[str, list[Program]]:
    known = sentences()
    found: dict[str, list[Program]] = {}
    for path in sorted(HERE.glob("*.cpp")):
        if re.search(r"^// of: the compiler$", read(path), re.MULTILINE):
            continue
        program = Program(path)
        names = [word for word in program.words if word in known]
        if len(names) != 1:
            raise Wrong(f"{path.name}: its expectation names {len(names)} faults instead of one")
        if not program.fix:
            raise Wrong(f"{path.name}: no line '// fix: what to write instead'")
        if not any("@here" in word for word in program.words):
            raise Wrong(f"{path.name}: its expectation does not name the user's line (line<@here>, or {path.name}:@here)")
        found.setdefault(names[0], []).append(program)
    for fault, those in found.items():
        those.sort(key=lambda p: (p.name != fault, p.name))
    return found


def compile_time() -> list[str]:
    says, shown, out = sentences(), programs(), []
    for fault, sentence in says.items():
        out += [f"### {fault}", "", wrapped(sentence, "> ", "> "), ""]
        if fault in WITHOUT_PROGRAM:
            if fault in shown:
                raise Wrong(f"fault::{fault} has a program ({shown[fault][0].name}.cpp); take it from the list of those without")
            out += [wrapped(f"**Remedy:** {WITHOUT_PROGRAM[fault]}"), ""]
        elif fault not in shown:
            raise Wrong(f"fault::{fault} is shown by no program in tests/fail; write one with lines '// expect:' and '// fix:'")
        for program in shown.get(fault, []):
            if not any(word in sentence for word in program.telling_words()):
                raise Wrong(f"{program.name}.cpp: its expectation quotes nothing of the sentence of fault::{fault}")
            out += ["```cpp", program.lines, "```", "", wrapped(f"**Facts:** {program.facts(fault)}."), "",
                    wrapped(f"**Remedy:** {program.fix}"), ""]
    for name in sorted(WITHOUT_PROGRAM.keys() - says):
        raise Wrong(f"fault::{name} is none of base/fault_list.hpp; take it from the list of those without a program")
    for path in sorted(HEADERS.rglob("*.hpp")):
        for sentence in re.findall(r'static_assert\([^;]*?"(cleave: [^"]*)"', read(path)):
            if path.name != "rejected.hpp" and not OF_THE_LIBRARY.match(sentence):
                raise Wrong(f"{path.relative_to(ROOT)}: a sentence for the user outside base/fault_list.hpp: {sentence}")
    return out


def expression_text(expression: str) -> str:
    """The sentence that a wording function returns, with <placeholders>."""
    text = ""
    for part in re.findall(r'"(?:[^"\\]|\\.)*"|\w[\w:]*\(\w*(?: [-+] \d+)?\)|[a-z]\w*', expression):
        call = re.fullmatch(r"([\w:]+)\((\w*(?: [-+] \d+)?)\)", part)
        if part.startswith('"'):
            text += part[1:-1]
        elif part == "sentence":
            text += "cleave: "
        elif not call:
            text += f"<{part}>"
        elif call.group(1) == "quoted":
            text += f"'<{call.group(2)}>'"
        elif call.group(1) == "underlying":  # the place in the table that stands before it
            continue
        elif call.group(1) in ("number", "std::string", "name_of"):
            text += f"<{call.group(2)}>"
        else:
            raise Wrong(f"a sentence of an exception: the generator does not know what {part} becomes")
    return text


# The notes, the name and the words of a sentence of an exception: a text with its arguments by name, or a function.
SENTENCE = (r"((?:^///[^\n]*\n)*)^(?:\[\[gnu::cold\]\] inline std::string (\w+)\([^)]*\) \{(.*?)\}$"
            r'|inline constexpr text<(\d)> (\w+)\{\s*((?:"(?:[^"\\]|\\.)*"\s*)+)(?:,\s*\{([^}]*)\})?\};)')


def text_of(name: str, count: int, words: str, order: str) -> str:
    """The sentence of a text, with <placeholders>."""
    sentence = "".join(part[1:-1] for part in re.findall(r'"(?:[^"\\]|\\.)*"', words))
    named = set(re.findall(r"\{(\w+)\}", sentence))
    if re.search(r"[{}]", re.sub(r"\{\w+\}", "", sentence)):
        raise Wrong(f"wording::{name} has a brace that begins or ends no name")
    if len(named) != count or (order and set(re.findall(r'"(\w+)"', order)) != named):
        raise Wrong(f"wording::{name} does not name each of its {count} arguments")
    return "cleave: " + re.sub(r"\{(\w+)\}", r"<\1>", sentence)


def run_time() -> list[str]:
    shared = HEADERS / "base" / "error.hpp"
    kinds = re.findall(r"((?:^///[^\n]*\n)+)^struct (\w+) : ", read(shared), re.MULTILINE)
    thrown: dict[str, str] = {}
    for path in sorted(HEADERS.rglob("*.hpp")):
        for kind, what in re.findall(r"(?:throw |raise<)(\w+_error)>?\((.*?)\);", read(path), re.DOTALL):
            for name in re.findall(r"wording::(\w+)\(", what):
                thrown[name] = kind
    wordings: dict[str, list[tuple[str, str]]] = {}
    worded = [(path.relative_to(HEADERS), *found)
              for path in [shared, *sorted(HEADERS.glob("*/errors.hpp"))]
              for found in re.findall(SENTENCE, read(path), re.MULTILINE | re.DOTALL)]
    for path, notes, function, body, count, text, words, order in worded:
        name = function or text
        if name in ("sentence", "filled"):
            continue
        # A sentence that is sent to the other ranks before it is thrown.
        for kind in re.findall(r"^/// thrown: (\w+)", notes, re.MULTILINE):
            thrown[name] = kind
        notes = re.sub(r"^/// thrown: .*\n", "", notes, flags=re.MULTILINE)
        if name not in thrown:
            raise Wrong(f"{path}: wording::{name} is thrown by nothing")
        fix = " ".join(re.findall(r"^/// (?:fix: )?(.*)", notes, re.MULTILINE)) if "fix:" in notes else ""
        if not fix:
            raise Wrong(f"{path}: no line '/// fix: what to do' above wording::{name}")
        sentence = text_of(name, int(count), words, order) if text else expression_text(re.search(r"return (.*);", body, re.DOTALL).group(1))
        wordings.setdefault(thrown[name], []).append((sentence, fix))
    out = []
    for notes, kind in kinds:
        about = " ".join(re.findall(r"^/// (.*)", notes, re.MULTILINE))
        if kind == "error":
            continue
        out += [f"### {kind}", "", wrapped(about), ""]
        for sentence, fix in wordings.pop(kind, []):
            out += [wrapped(sentence.replace('<', chr(92) + '<'), "> ", "> "), "", wrapped(f"**Remedy:** {fix}"), ""]
    for kind in wordings:
        raise Wrong(f"base/error.hpp: {kind} is thrown but not described")
    return out


def page() -> str:
    names = re.search(r"namespace fail_test \{\n(.*?)\} // namespace", read(HERE / "names.hpp"), re.DOTALL).group(1)
    names = names.replace("inline constexpr", "constexpr").strip("\n")
    head = [
        "<!-- Generated by tests/fail/catalogue.py; do not edit. -->", "# Error catalogue", "",
        wrapped("`tests/fail/catalogue.py` generates this page from the list of faults (`base/fault_list.hpp`), "
                "the sentences of exceptions (`base/error.hpp` and the `errors.hpp` of each room) and the programs in `tests/fail`, which the tests "
                "compile. "
                "[Errors](14-errors.md) explains what an error looks like."), "",
        "## Compile-time faults", "",
        wrapped("A fault is one sentence. Its facts stand beside it as template arguments. Three operation names are special: `input` is an "
                "argument, `assignment` is a result, and `layout` is a call of the mesh, as in `mesh(batch / data)`. The examples call "
                "`plan` where your program may have an assignment, and they use these names:"), "",
        "```cpp", names, "```", ""]
    middle = [
        "## Run-time exceptions", "",
        wrapped("All exceptions derive from `cleave::error`. If sizes, extents or Views do not fit, all ranks throw, even if only one of them "
                "was at fault. Words in `<>` are replaced by values from your program."), ""]
    return "\n".join(head + compile_time() + middle + run_time()).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(generated_page.main(__file__, __doc__, PAGE, page))
