#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/reference.md: every public type and function with its doc comment.

doxygen (1.9.4 or later, `apt-get install doxygen`) reads the headers, and this script turns its XML into one page. A public entity
without a doc comment is a gap, and gaps are errors. With --check nothing is written; the script fails if the page is out of date.
A machine without doxygen can check too: the page ends with a hash of the doc comments and declarations from which it was made.
"""
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import generated_page  # noqa: E402
from generated_page import ROOT, Wrong, read, wrapped  # noqa: E402

HEADERS = ROOT / "include" / "cleave"
PAGE = ROOT / "docs" / "reference.md"

# The chapters: a title, an introduction, and the headers. A header stands alone, or with the names that are public in it.
CHAPTERS = [
    ("Tensors and grids", "", ["tensor/tensor.hpp", "tensor/ghosts.hpp", "grid.hpp", ("comm/grid_state.hpp", ["on_ranks"]), ("watch/calls.hpp", ["print_calls"]), "redistribute/copy.hpp", "redistribute/bridge.hpp", "redistribute/distributions.hpp", "redistribute/slabs.hpp", "tensor/on_instance.hpp", ("tensor/assign.hpp", ["run"]),
                               ("storage/memory.hpp", ["execution_space", "memory_space"])]),
    ("Meshes, dims and layouts", "", [("mesh/mesh_value.hpp", ["axis", "MeshAxis", "dynamic", "named_size"]), ("mesh/axis_list.hpp", ["max_axes"]),
                                      "layout/sharding.hpp", ("layout/layout.hpp", ["dim_ref", "spec", "max_rank", "reduction"]),
                                      ("layout/blocks.hpp", ["nests"])]),
    ("Element types", "", [("type/element.hpp", ["element", "element_of"]), ("type/narrow.hpp", ["bfloat16", "half"]), "type/abstract.hpp"]),
    ("Plans", "", [("plan/plan.hpp", ["plan", "planned"]),
                   ("plan/options.hpp", ["with", "expect", "fewest_bytes", "without", "at_most", "only_over", "all_sizes_expected", "without_overlap", "PlanOption"]),
                   "study/explain_plan.hpp", ("cost/collective.hpp", ["kind"]), ("cost/policy.hpp", ["policy"])]),
    ("Functions and values", "", [("expr/function.hpp", ["function"]), "record/value.hpp", "expr/statement.hpp", "expr/tree.hpp"]),
    ("Operations", "", ["expr/functions.hpp", "expr/mathematics.hpp", "expr/reductions.hpp"]),
    ("Elements under other indices", "", ["expr/movement.hpp", ("layout/index_map.hpp", ["border"])]),
    ("Look-ups, scans and sorting", "", ["expr/lookup.hpp", "expr/cumulative.hpp", "expr/associative_scan.hpp", "expr/sort.hpp"]),
    ("Random numbers", "", ["expr/random.hpp"]),
    ("Gradients", "", ["expr/gradient.hpp"]),
    ("Loops", "", ["expr/loops.hpp"]),
    ("Operations of your own", "`CLEAVE_FUNCTION` marks a function that kernels call. For CUDA and HIP compilers it is `__host__ __device__`, otherwise nothing.",
     ["expr/operation.hpp", "object.hpp", "expr/values.hpp", ("ops/user.hpp", ["elementwise_entry", "shard_dims", "reference_shard"]), ("ops/formula.hpp", ["formula", "x", "y", "z", "r", "g"]),
      ("execute/local.hpp", ["shard", "local_context"])]),
    ("Libraries of functions", "What a library of functions on values needs, as `cleave/nn`. Its kernels on shards include `cleave/shards.hpp`.",
     ["expr/values.hpp", ("storage/memory.hpp", ["execution_instance", "launch", "wait_for_kernels", "copy_bytes", "bytes_of"])]),
    ("Linear algebra and Fourier transforms", "", ["linalg/recorded.hpp", "linalg/tall_qr.hpp", "linalg/summa.hpp", "linalg/grid_factor.hpp", "linalg/grid_solve.hpp", "linalg/fft_recorded.hpp"]),
    ("Solvers", "", ["solve/iteration.hpp", "solve/cg.hpp", "solve/bicgstab.hpp", "solve/gmres.hpp", "solve/chebyshev.hpp", "solve/power.hpp"]),
    ("Stencils", "", ["stencil/boundary.hpp", "stencil/field.hpp", "stencil/advance.hpp"]),
    ("Sparse matrices", "", ["sparse/matrix.hpp", "sparse/assemble.hpp", "sparse/matrix_market.hpp", "sparse/kokkos_sparse.hpp"]),
    ("Fields in files", "", ["io/field_file.hpp", ("io/xdmf.hpp", ["field_options"])]),
    ("Weights in files", "", ["io/arrays.hpp", ("io/load.hpp", ["load_options"]), ("files/names.hpp", ["name_rule", "name_table"]), ("files/ranges.hpp", ["traffic"])]),
    ("Checkpoints", "", ["io/checkpoints.hpp"]),
    ("Records", "", ["io/loader.hpp"]),
    ("Seeing a plan", "", ["show/visualise.hpp", "show/terminal.hpp", "show/plan_record.hpp", "show/plan_page.hpp", "show/plan_json.hpp", "show/plan_diff.hpp"]),
    ("Data of other libraries", "", ["interop/dlpack.hpp", "interop/petsc.hpp", "interop/tpetra.hpp"]),
    ("cleave/nn", "", ["nn/layout_rules.hpp", "nn/parameters.hpp", "nn/initial_values.hpp", "nn/embedding.hpp", "nn/normalization.hpp", "nn/feed_forward.hpp", "nn/convolution.hpp", "nn/rotary.hpp", "nn/attention.hpp",
                       "nn/self_attention.hpp", "nn/decoding.hpp", "nn/mixture_of_experts.hpp", "nn/blocks.hpp", "nn/pipeline.hpp",
                       "nn/pipeline_gradient.hpp"]),
    ("cleave/optim", "", ["optim/sgd.hpp", "optim/adam.hpp", "optim/adafactor.hpp", "optim/average.hpp", "optim/clip.hpp", "optim/schedule.hpp", "optim/stopping.hpp", "optim/mixed.hpp"]),
    ("Exceptions", "[The catalogue](errors.md) has every sentence.", [("base/error.hpp", ["error", "mesh_error", "shape_error", "view_error", "mpi_error", "transform_error", "grid_error", "evaluation_error", "file_error", "number_error"])]),
    ("Checking programs", "These functions run a function or a plan without MPI, on doubles. Tests use them.",
     [("plan/partition.hpp", ["partition"]), ("simulate/evaluate.hpp", ["evaluate"]), ("simulate/simulate.hpp", ["simulate"]), ("simulate/devices.hpp", ["simulated"]),
      ("simulate/array.hpp", ["host_array"])]),
]
# Rooms of which users include headers: each header is in a chapter or here.
PUBLIC_ROOMS = ["expr", "tensor", "redistribute", "nn", "optim", "linalg", "solve", "sparse", "stencil", "io", "interop", "show"]
INTERNAL = ["interop/agreed.hpp", "io/hdf5.hpp", "io/agree.hpp", "io/convert.hpp", "io/members.hpp", "io/checkpoint_files.hpp", "files/json.hpp", "files/checksum.hpp", "files/file.hpp", "files/stored.hpp", "files/safetensors.hpp", "files/npz.hpp", "sparse/kernels.hpp", "expr/mistakes.hpp", "expr/mathematics_list.hpp", "tensor/mistakes.hpp", "tensor/call.hpp", "tensor/make.hpp", "tensor/handle.hpp", "tensor/storage.hpp", "tensor/bridge.hpp", "tensor/copy.hpp", "tensor/distributions.hpp", "tensor/slabs.hpp", "plan/explain.hpp", "redistribute/redistribution.hpp", "redistribute/distribution.hpp", "redistribute/grid_copy.hpp", "tensor/strided.hpp", "optim/leaves.hpp", "linalg/blas.hpp", "linalg/block_cyclic.hpp", "linalg/fft.hpp",
            "linalg/fft_blocks.hpp", "linalg/fft_plans.hpp", "linalg/fft_kernels.hpp", "linalg/fft_transforms.hpp", "linalg/kernels.hpp", "linalg/linalg.hpp", "linalg/strided.hpp"]
# Public to the compiler only.
HIDDEN = {"dim_tag", "axis_tag", "placement_tag", "unreduced_tag", "option_tag", "is_tensor", "is_function", "is_expression", "recording", "called_at", "leaf_count", "wording", "transform", "name_of"}
HIDDEN_FIELDS = {"well_formed", "written", "verdict", "plan_type"}
# Parameters that note the line of the caller.
NOTES_LINE = re.compile(r"(?:, |\b)(?:const char ?\* ?file ?= ?__builtin_FILE\(\), unsigned line ?= ?__builtin_LINE\(\)|source where ?= ?source::here\(\))")


def headers() -> list[tuple[str, list[str] | None]]:
    return [entry if isinstance(entry, tuple) else (entry, None) for _, _, entries in CHAPTERS for entry in entries]


def check_lists() -> None:
    listed = [name for name, _ in headers()] + INTERNAL
    for name in listed:
        if not (HEADERS / name).exists():
            raise Wrong(f"tests/readme/reference.py lists {name}, which does not exist")
    for room in PUBLIC_ROOMS:
        for path in sorted((HEADERS / room).glob("*.hpp")):
            # errors.hpp has the sentences of exceptions, which the catalogue lists.
            if path.name != "errors.hpp" and f"{room}/{path.name}" not in listed:
                raise Wrong(f"tests/readme/reference.py knows nothing of {room}/{path.name}: add it to a chapter or to the internal headers")


def declarations(text: str, names: list[str] | None) -> list[str]:
    """Doc comments and declarations of what is public in a header; bodies of functions do not count."""
    kept: list[str] = []
    item: list[str] = []
    in_class = False
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip(" "))
        comment = line.lstrip().startswith("///")
        if depth == 0 and line and not in_class:
            if comment or re.match(r"template|requires", line):
                item.append(line)
            elif not line.startswith(("//", "#", "}")):
                item.append(line)
                in_class = re.match(r"(struct|class|enum|concept)\b", line) is not None and not line.endswith((";", "}"))
                chosen = names is None or any(re.search(rf"\b{re.escape(name)}\b", line) for name in names)
                if chosen:
                    kept += item
                item = []
        elif in_class and depth <= 2:
            if chosen and (comment or (line.strip() and not line.lstrip().startswith("//"))):
                kept.append(line)
            in_class = not line.startswith("}")
    return kept


def digest() -> str:
    """A hash of doc comments and declarations, and of this script; spaces and line breaks do not count."""
    total = hashlib.sha256(read(pathlib.Path(__file__)).encode())
    for header, names in headers():
        total.update(re.sub(r"\s+|///", "", "".join(declarations(read(HEADERS / header), names))).encode())
    return total.hexdigest()[:16]


# From the XML of doxygen.

def text_of(node: xml.Element | None) -> str:
    """A description as Markdown, in one paragraph for each of its own."""
    if node is None:
        return ""

    def inline(n: xml.Element) -> str:
        if n.tag == "computeroutput":
            inside = "".join(n.itertext())
            return f"`{inside}`"
        parts = [(n.text or "").replace("<", "\\<")]
        for child in n:
            parts += [inline(child), (child.tail or "").replace("<", "\\<")]
        return "".join(parts)

    if node.find(".//orderedlist") is not None or node.find(".//itemizedlist") is not None:
        raise Wrong(f"a line of this doc comment begins like an entry of a list: {' '.join(''.join(node.itertext()).split())[:100]}")
    paragraphs = []
    for para in node.findall("para"):
        laws = [" ".join(inline(p).split()) for section in para.findall("simplesect") if section.get("kind") == "post" for p in section.findall("para")]
        for section in para.findall("simplesect"):
            after = section.tail
            section.clear()
            section.tail = after
        paragraphs.append(" ".join(inline(para).split()))
        if laws:
            paragraphs.append("Laws: " + "; ".join(laws) + ".")
    return "\n\n".join(p for p in paragraphs if p)


def doc_of(member: xml.Element) -> str:
    return "\n\n".join(t for t in (text_of(member.find("briefdescription")), text_of(member.find("detaileddescription"))) if t)


def tidy(code: str) -> str:
    code = " ".join(code.split())
    code = re.sub(r"< ", "<", code)
    code = re.sub(r" >", ">", code)
    code = re.sub(r" ([&*]+)(?=\w)", r"\1 ", code)
    code = re.sub(r" ([&*]+)(\.\.\.|[,)>]|$)", r"\1\2", code)
    code = re.sub(r"(\w|\)|>)=(?=[^=])", r"\1 = ", code) if "operator" not in code else re.sub(r"(\w)=(?=[\w{])", r"\1 = ", code)
    code = code.replace("= 0 ) ", "").replace("( ", "(")
    return code.replace("cleave::detail::", "detail::")


def template_of(member: xml.Element) -> tuple[str, list[str]]:
    params, kinds = [], []
    found = member.find("templateparamlist")
    if found is None:
        return "", []
    for p in found.findall("param"):
        kind, name, default = "".join(p.find("type").itertext()), p.findtext("declname") or "", p.find("defval")
        kinds.append(kind)
        params.append(" ".join(f"{kind} {name}".split()) + (" = " + "".join(default.itertext()) if default is not None else ""))
    return tidy(f"template <{', '.join(params)}>"), kinds


class Entity:
    """A type, a function or a constant of a header, with its overloads or members."""

    def __init__(self, kind: str, name: str, file: str, line: int, signature: list[str], doc: str, qualified: str = ""):
        self.kind, self.name, self.file, self.line = kind, name, file, line
        self.qualified = (qualified or name).removeprefix("cleave::")
        # Overloads without a comment of their own share that of the overload before.
        self.variants = [([signature], doc)]
        self.members: list[Entity] = []
        self.fields: list[str] = []
        self.statement = False

    def add(self, signature: list[str] | None, doc: str) -> None:
        signatures, last = self.variants[-1]
        if signature is not None and doc and last:
            self.variants.append(([signature], doc))
        elif signature is not None:
            self.variants[-1] = (signatures + [signature], last or doc)
        elif not last:
            self.variants[-1] = (signatures, doc)

    def documented(self) -> bool:
        return bool(self.variants[0][1])


def place(node: xml.Element) -> tuple[str, int]:
    where = node.find("location")
    return str(pathlib.Path(where.get("file")).resolve().relative_to(HEADERS.resolve())), int(where.get("line"))


def signature_of(m: xml.Element) -> tuple[list[str], bool]:
    """The lines of a declaration, and whether it is a form for statements."""
    template, kinds = template_of(m)
    requires = " ".join("".join(clause.itertext()).split()) if (clause := m.find("requiresclause")) is not None else ""
    statement = any("Statement" in k for k in kinds) or "Statement" in requires
    lines = [template] if template else []
    if requires:
        lines.append(f"  requires {requires}")
    result = "".join(m.find("type").itertext()) if m.find("type") is not None else ""
    arguments = NOTES_LINE.sub("", tidy(m.findtext("argsstring") or "")).replace("(, ", "(")
    explicit = "explicit " if m.get("explicit") == "yes" and "explicit" not in result else ""
    result = result.replace("constexpr", "", 1) if explicit else result
    result = re.sub(r" ([&*]+)$", r"\1", tidy(result))
    lines.append(tidy(f"{explicit}{result} {m.findtext('name')}") + arguments)
    return lines, statement


def is_plumbing(m: xml.Element, owner: str) -> bool:
    """Defaulted, deleted or copying members, deduction guides."""
    arguments, name = m.findtext("argsstring") or "", m.findtext("name")
    if re.search(r"= ?(default|delete)$", arguments) or arguments.endswith("=delete") or "->" in arguments and name == owner:
        return True
    return name.startswith("~") or (name == owner and re.fullmatch(rf"\((const )?{re.escape(owner)} ?&+\w*\).*", arguments) is not None)


def lifted(file: str, name: str) -> bool:
    """Whether a line beside the function makes it one of statements too."""
    return re.search(rf"^CLEAVE_LIFT\w*\({re.escape(name.removeprefix('operator'))}[,)]", read(HEADERS / file), re.MULTILINE) is not None


def add_function(entities: list[Entity], m: xml.Element, owner: str = "") -> None:
    file, line = place(m)
    signature, statement = signature_of(m)
    name, doc = m.findtext("name"), doc_of(m)
    # Operators of values are one entry.
    key = "operators" if re.match(r"operator[^\w ]", name) and not owner else name
    same = [e for e in entities if e.kind == "function" and e.name == key and (e.file == file or statement)]
    if statement and same:
        same[0].statement = True
    elif same and not statement:
        same[0].add(signature, doc)
    else:
        made = Entity("function", key, file, line, signature, doc, "" if key == "operators" else m.findtext("qualifiedname") or "")
        made.statement = statement or lifted(file, name)
        entities.append(made)


def class_entity(compound: xml.Element) -> Entity:
    name = compound.findtext("compoundname").split("::")[-1]
    file, line = place(compound)
    template, _ = template_of(compound)
    base = [tidy("".join(b.itertext())) for b in compound.findall("basecompoundref") if not re.search(r"_tag|traced_|detail", "".join(b.itertext()))]
    head = f"{compound.get('kind')} {name}" + (" : " + ", ".join(base) if base else "")
    made = Entity("class", name, file, line, ([template] if template else []) + [head], doc_of(compound), compound.findtext("compoundname"))
    noted: list[Entity] = []
    for m in compound.iter("memberdef"):
        if m.get("prot") != "public":
            continue
        kind, doc = m.get("kind"), doc_of(m)
        type_name = tidy("".join(m.find("type").itertext())) if m.find("type") is not None else ""
        if kind in ("function", "friend") and m.find("argsstring") is not None and m.findtext("argsstring"):
            if not is_plumbing(m, name):
                add_function(noted, m, name)
        # doxygen takes some initializers apart.
        elif kind in ("variable", "typedef") and "detail::" not in type_name and "==" not in type_name and m.findtext("name") not in HIDDEN_FIELDS:
            value = tidy("".join(m.find("initializer").itertext())) if m.find("initializer") is not None else ""
            value = "" if len(value) > 40 or re.search(r"[\[?]", value) else value
            if kind == "typedef":
                text = f"using {m.findtext('name')} = {type_name};"
            else:
                text = f"{'static ' if m.get('static') == 'yes' and 'static' not in type_name else ''}{type_name} {m.findtext('name')}{' ' + value if value.startswith('=') else value};"
            made.fields.append(text)
            if doc:
                noted.append(Entity("field", m.findtext("name"), *place(m), [m.findtext("name")], doc))
    made.members = sorted(noted, key=lambda e: e.line)
    return made


def entities_from(folder: pathlib.Path) -> list[Entity]:
    found: list[Entity] = []
    for path in sorted(folder.glob("*.xml")):
        if not re.match(r"(struct|class|namespace|concept)cleave", path.name) or "detail" in path.name:
            continue
        for compound in xml.parse(path).getroot().iter("compounddef"):
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if kind in ("struct", "class"):
                # Specialisations and nested types are no entries of their own.
                if "<" not in name and re.fullmatch(r"cleave(::(nn|optim|linalg|io|stencil|solve|sparse|symbols))?::\w+", name):
                    found.append(class_entity(compound))
            elif kind == "concept":
                template, _ = template_of(compound)
                shown = re.sub(r"cleave::(?=\w+ =)", "", tidy("".join(compound.find("initializer").itertext())).replace(template.replace("template <", "template<"), ""))
                found.append(Entity("concept", name.split("::")[-1], *place(compound), [template, shown.strip() + ";"], doc_of(compound)))
            elif kind == "namespace":
                functions = [m for m in compound.iter("memberdef") if m.get("kind") == "function"]
                # Forms for statements join those for values.
                for m in sorted(functions, key=lambda m: (signature_of(m)[1], place(m))):
                    if "->" not in (m.findtext("argsstring") or "") or "type" in m.attrib:
                        if "".join(m.find("type").itertext()).strip():
                            add_function(found, m)
                for m in compound.iter("memberdef"):
                    doc = doc_of(m)
                    if m.get("kind") == "enum":
                        values = [v.findtext("name") for v in m.findall("enumvalue")]
                        made = Entity("enum", m.findtext("name"), *place(m), [f"enum class {m.findtext('name')} {{ {', '.join(values)} }};"], doc,
                                      m.findtext("qualifiedname") or "")
                        made.members = [Entity("field", v.findtext("name"), *place(m), [v.findtext("name")], doc_of(v)) for v in m.findall("enumvalue") if doc_of(v)]
                        found.append(made)
                    elif m.get("kind") in ("variable", "typedef") and "<" not in m.findtext("name"):
                        template, _ = template_of(m)
                        kind_name = tidy("".join(m.find("type").itertext()))
                        value = tidy("".join(m.find("initializer").itertext())) if m.find("initializer") is not None else ""
                        value = " " + value if value.startswith("=") and len(value) < 60 else ""
                        text = f"using {m.findtext('name')} = {kind_name};" if m.get("kind") == "typedef" else f"inline {kind_name} {m.findtext('name')}{value};"
                        found.append(Entity("constant", m.findtext("name"), *place(m), ([template] if template else []) + [text], doc, m.findtext("qualifiedname") or ""))
    return found


def doxygen() -> tuple[str, list[Entity]] | None:
    """The version of doxygen and what it found, or None where there is no doxygen."""
    tool = shutil.which("doxygen")
    if tool is None:
        return None
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.split()[0]
    with tempfile.TemporaryDirectory() as scratch:
        settings = [f'INPUT="{HEADERS}"', "RECURSIVE=YES", "FILE_PATTERNS=*.hpp", "EXTRACT_ALL=YES", "GENERATE_HTML=NO", "GENERATE_LATEX=NO", "GENERATE_XML=YES",
                    "XML_PROGRAMLISTING=NO", 'INPUT_FILTER="sed -e s,{.inline.namespace.v[0-9]*.,, -e s,}.//.namespace.cleave::v.*,,"', "QUIET=YES", "WARNINGS=NO", "WARN_IF_UNDOCUMENTED=NO", "MAX_INITIALIZER_LINES=3", f'OUTPUT_DIRECTORY="{scratch}"']
        subprocess.run([tool, "-"], input="\n".join(settings), text=True, check=True, capture_output=True)
        return version, entities_from(pathlib.Path(scratch) / "xml")


# The page.

def code_lines(signature: list[str], end: str = ";") -> list[str]:
    out = []
    for i, line in enumerate(signature):
        line = line + (end if i + 1 == len(signature) and not line.endswith((";", "}")) else "")
        while len(line) > 100:
            cut = line.rfind(", ", 0, 99)
            if cut < 40:
                break
            out.append(line[:cut + 1])
            line = "    " + line[cut + 2:]
        out.append(line)
    return out


def shown(e: Entity) -> list[str]:
    lines = [f"#### {e.qualified}", ""]
    for signatures, doc in e.variants:
        lines.append("```cpp")
        if e.kind == "class" and e.fields:
            head = signatures[0]
            lines += head[:-1] + [head[-1] + " {"] + [f"  {f}" for f in e.fields] + ["};"]
        else:
            for signature in signatures:
                lines += code_lines(signature)
        lines += ["```", ""] + [wrapped(p) + "\n" for p in doc.split("\n\n") if p]
    if e.statement and e.kind == "function":
        lines += ["Also takes tensors, in a statement.\n"]
    for m in e.members:
        for signatures, doc in m.variants:
            names = [m.name] if m.kind == "field" else [re.sub(r"^constexpr (?!operator)", "", s[-1]) for s in signatures]
            for name in names[:-1]:
                lines.append(f"- `{name}`,")
            lines += wrapped(f"`{names[-1]}`" + (": " + " ".join(doc.split()) if doc else ""), indent="  ", first="- ").splitlines()
    return lines + [""]


def without_comment(e: Entity) -> list[str]:
    gaps = [] if e.documented() else [f"{e.file}:{e.line}: {e.name} has no doc comment"]
    # A constructor or a conversion may need no more than the comment of its class.
    return gaps + [f"{m.file}:{m.line}: {e.name}::{m.name} has no doc comment" for m in e.members
                   if m.kind == "function" and not m.documented() and m.name != e.name and (m.name == "operator()" or not m.name.startswith("operator"))]


def page_of(version: str, found: list[Entity]) -> str:
    check_lists()
    lines = ["<!-- Generated by tests/readme/reference.py; do not edit. -->", "# Reference", "",
             "This page has every public type and function. doxygen reads the doc comments of the headers, and",
             "`python3 tests/readme/reference.py` writes the page. Parameters that only record the line of the",
             "caller are left out. Functions of dims and values are used inside a `cleave::function`; *also takes",
             "tensors* means that a function can be used in a statement too.", ""]
    anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title, _, _ in CHAPTERS]
    lines += [f"- [{title}](#{anchor})" for (title, _, _), anchor in zip(CHAPTERS, anchors)] + [""]
    gaps = []
    for title, about, entries in CHAPTERS:
        lines += [f"## {title}", ""] + ([wrapped(about), ""] if about else [])
        for header, names in [entry if isinstance(entry, tuple) else (entry, None) for entry in entries]:
            own = sorted((e for e in found if e.file == header and e.name not in HIDDEN and (names is None or e.name in names)),
                         key=lambda e: e.line if names is None else names.index(e.name))
            for name in names or []:
                if name not in [e.name for e in own]:
                    raise Wrong(f"tests/readme/reference.py lists {name} of {header}, which is not there")
            if not own:
                raise Wrong(f"tests/readme/reference.py lists {header}, which has nothing public")
            lines += [f"### {header}", ""]
            for e in own:
                gaps += without_comment(e)
                lines += shown(e)
    if gaps:
        raise Wrong("\n".join(gaps) + f"\n{len(gaps)} public entities have no doc comment")
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n")
    return f"{text}\n\n<!-- doxygen {version}, declarations {digest()} -->\n"


def page() -> str:
    """The page as it should be. Without the doxygen that made the page that is kept, the hash decides."""
    kept = read(PAGE) if PAGE.exists() else ""
    made = re.search(r"<!-- doxygen (\S+), declarations (\S+) -->\n$", kept)
    checks = "--check" in sys.argv
    found = doxygen()
    if found is None or (checks and made is not None and made.group(1) != found[0]):
        check_lists()
        if not checks:
            raise Wrong("doxygen is needed to write docs/reference.md: apt-get install doxygen")
        if made is not None and made.group(2) == digest():
            return kept
        raise Wrong("docs/reference.md is out of date: doc comments or declarations have changed. Install "
                    + (f"doxygen {made.group(1)}" if made is not None and found is not None else "doxygen") + " and run python3 tests/readme/reference.py")
    return page_of(*found)


if __name__ == "__main__":
    sys.exit(generated_page.main(__file__, __doc__, PAGE, page))
