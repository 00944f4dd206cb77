#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a checkpoint that cleave::io::checkpoints wrote, with numpy alone.

    read_checkpoint.py run                 lists the arrays of the latest checkpoint in the folder run
    read_checkpoint.py run --step 100      of another one
    read_checkpoint.py run --npz all.npz   writes them to a file of numpy

In a program: `arrays = read_checkpoint.read("run")`, a dict of arrays by name.
"""
import argparse
import json
import pathlib

import numpy

# numpy has no bfloat16: its bytes, for `view(ml_dtypes.bfloat16)`.
TYPES = {"bool": "?", "i8": "i1", "u8": "u1", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8", "bf16": "V2",
         "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16"}


def steps(folder: str) -> list[int]:
    """The steps of the checkpoints in a folder: those that have a commit file."""
    return sorted(int(path.parent.name[len("step_"):]) for path in pathlib.Path(folder).glob("step_*/commit.json")
                  if path.parent.name[len("step_"):].isdigit())


def read(folder: str, step: int | None = None) -> dict[str, numpy.ndarray]:
    """The arrays of a checkpoint, without a comparison of their checksums."""
    where = pathlib.Path(folder, f"step_{steps(folder)[-1] if step is None else step}")
    if not (where / "commit.json").exists():
        raise FileNotFoundError(f"there is no checkpoint {where}")
    index = json.loads((where / "index.json").read_text(encoding="utf-8"))
    arrays = {name: numpy.empty(a["shape"], TYPES[a["type"]]) for name, a in index["arrays"].items()}
    for piece in index["pieces"]:
        array = arrays[piece["array"]]
        count = int(numpy.prod(piece["shape"], dtype=numpy.int64))
        values = numpy.fromfile(where / piece["file"], array.dtype, count, offset=piece["offset"])
        box = tuple(slice(first, first + n) for first, n in zip(piece["begin"], piece["shape"]))
        array[box] = values.reshape(piece["shape"])
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--step", type=int)
    parser.add_argument("--npz", help="a file to be written")
    arguments = parser.parse_args()
    arrays = read(arguments.folder, arguments.step)
    for name, array in arrays.items():
        print(f"{name}: {array.dtype} {list(array.shape)}" + (f" = {array}" if array.shape == () else ""))
    if arguments.npz:
        numpy.savez(arguments.npz, **arrays)


if __name__ == "__main__":
    main()
