#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a checkpoint of llama2.c again with a table for the scores: a copy of the embedding table, behind everything else. A negative size
of the vocabulary says that it is there."""
import pathlib
import struct
import sys

SIZES = "<7i"


def main() -> None:
    shared = pathlib.Path(sys.argv[1]).read_bytes()
    header = struct.calcsize(SIZES)
    sizes = list(struct.unpack_from(SIZES, shared))
    table = shared[header:header + 4 * sizes[0] * sizes[5]]
    sizes[5] = -sizes[5]
    pathlib.Path(sys.argv[2]).write_bytes(struct.pack(SIZES, *sizes) + shared[header:] + table)


if __name__ == "__main__":
    main()
