#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Stands before the compiler where nothing runs what is compiled: it reads the source, instantiates its templates and evaluates its
# constants, and the object stays empty. Generating code would take half of the time. Headers are precompiled as they are.
import pathlib
import subprocess
import sys

command = sys.argv[1:]
precompiles = "c++-header" in command
result = subprocess.run(command if precompiles else [*command, "-fsyntax-only"], check=False)
if result.returncode == 0 and not precompiles:
    pathlib.Path(command[command.index("-o") + 1]).write_bytes(b"")
sys.exit(result.returncode)
