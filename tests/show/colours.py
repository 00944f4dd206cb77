#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if the picture of a layout has colours on a terminal, and neither in a pipe, nor with NO_COLOR, nor on a terminal without colours.
The program prints the picture."""
import os
import pty
import shlex
import subprocess
import sys


def on_terminal(command: list[str], variables: dict) -> str:
    """Its output on a terminal, which is that of the shell that starts it too."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("sh", ["sh", "-c", shlex.join(command) + "; exit $?"], {**os.environ, "NO_COLOR": "", "TERM": "xterm", **variables})
    text = b""
    try:
        while block := os.read(terminal, 4096):
            text += block
    except OSError:  # the other end is closed
        pass
    os.waitpid(process, 0)
    return text.decode().replace("\r\n", "\n")


def main() -> int:
    command = sys.argv[1:]
    plain = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    wrong = []
    if "| 0,1" not in plain or "\x1b" in plain:
        wrong.append(f"in a pipe: {plain!r}")
    coloured = on_terminal(command, {})
    if coloured.count("\x1b[30;4") != 2 or coloured.replace("\x1b[30;41m", "").replace("\x1b[30;42m", "").replace("\x1b[0m", "") != plain:
        wrong.append(f"on a terminal: {coloured!r}")
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        if (shown := on_terminal(command, variables)) != plain:
            wrong.append(f"with {variables}: {shown!r}")
    print("\n".join(wrong) or "all is right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
