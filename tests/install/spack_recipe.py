#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the Spack recipe in cmake/spack against the build files, then configures and installs with its arguments.

Spack itself is not needed. Its modules are replaced by stand-ins that record the directives of the recipe.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "cmake/spack/spack_repo/cleave/packages/cleave/package.py"
DIRECTIVES = ("license", "version", "variant", "depends_on", "conflicts")


class CMakePackage:
    """Spack's base class, as far as the recipe uses it."""

    def __init__(self, variants):
        self.variants = variants

    @staticmethod
    def define(name, value):
        return f"-D{name}={'ON' if value else 'OFF'}"

    def define_from_variant(self, name, variant):
        return self.define(name, self.variants[variant])


def read_recipe():
    """The class of the recipe and its directives: lists of (arguments, keywords) by name."""
    calls = {name: [] for name in DIRECTIVES}
    package = types.ModuleType("spack.package")
    for name in DIRECTIVES:
        setattr(package, name, lambda *args, _calls=calls[name], **keywords: _calls.append((args, keywords)))
    systems = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    systems.CMakePackage = CMakePackage
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": package, systems.__name__: systems})
    for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        sys.modules[name] = types.ModuleType(name)
    names = {"__file__": str(RECIPE), "__name__": "recipe"}
    exec(compile(RECIPE.read_text(encoding="utf-8"), str(RECIPE), "exec"), names)  # pylint: disable=exec-used
    return names["Cleave"], calls


def read_first(path, pattern):
    """What the pattern's group matches in a file of the project."""
    match = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"))
    if not match:
        sys.exit(f"{path} has nothing like {pattern}")
    return match.group(1)


def check_directives(recipe, calls):
    """Versions and options that the recipe names are those of the build files."""
    wrong = []
    if not recipe.git.endswith(ROOT.as_posix()):
        wrong.append(f"git is {recipe.git}, expected the repository {ROOT}")
    minimum = {"cmake": read_first("CMakeLists.txt", r"cmake_minimum_required\(VERSION ([0-9.]+)\)"),
               "kokkos": read_first("cmake/supply_kokkos.cmake", r"CLEAVE_KOKKOS_MINIMUM ([0-9.]+)\)"),
               "mpi": read_first("cmake/supply_mpi.cmake", r"CLEAVE_MPI_MINIMUM ([0-9.]+)\)")}
    specs = [args[0] for args, _ in calls["depends_on"]]
    for name, version in minimum.items():
        if not any(re.match(rf"{name}@{re.escape(version)}:", spec) for spec in specs):
            wrong.append(f"depends_on names no {name}@{version}: as the build files do, only {specs}")
    build_files = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "CMakeLists.txt", *ROOT.glob("cmake/*.cmake")])
    variants = {args[0]: keywords["default"] for args, keywords in calls["variant"]}
    for argument in recipe(variants).cmake_args():
        option = re.match(r"-D(\w+)=", argument).group(1)
        if f"option({option} " not in build_files:
            wrong.append(f"cmake_args sets {option}, which is no option of the build")
    return wrong, variants


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a folder for the build and the installation")
    parser.add_argument("--configure", nargs=argparse.REMAINDER, default=[], help="further arguments of cmake")
    options = parser.parse_args()

    recipe, calls = read_recipe()
    wrong, variants = check_directives(recipe, calls)
    if wrong:
        sys.exit("\n".join(wrong))

    build, prefix = options.work / "build", options.work / "prefix"
    arguments = recipe({name: not default for name, default in variants.items()}).cmake_args()
    for command in (["cmake", "-S", ROOT, "-B", build, *arguments, *options.configure], ["cmake", "--install", build, "--prefix", prefix]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    targets = (prefix / "share/cmake/Cleave/CleaveTargets.cmake").read_text(encoding="utf-8")
    if "CLEAVE_CHECKED=1" not in targets:
        sys.exit("the variant `checked` does not reach the installed targets")
    print(f"spack recipe: {len(calls['depends_on'])} dependencies, {len(variants)} variants, configured and installed")


if __name__ == "__main__":
    main()
