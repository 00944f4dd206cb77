#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what shallow_water --fields wrote, by way of its XDMF file, with h5py; --image draws the last depth as a PNG file."""
import argparse
import pathlib
import struct
import sys
import xml.etree.ElementTree
import zlib

import h5py


def steps_of(path: pathlib.Path) -> list[tuple[float, list[int], dict]]:
    """Time, extents of the mesh, and the arrays by their names."""
    steps = []
    for grid in xml.etree.ElementTree.parse(path).getroot().findall("Domain/Grid/Grid"):
        fields = {}
        for attribute in grid.findall("Attribute"):
            item = attribute.find("DataItem")
            name, within = item.text.rsplit(":", 1)
            with h5py.File(path.parent / name, "r") as file:
                fields[attribute.get("Name")] = file[within][...]
            if list(fields[attribute.get("Name")].shape) != [int(n) for n in item.get("Dimensions").split()]:
                raise ValueError(f"{within} has other extents in {name} than in {path}")
        mesh = [int(n) for n in grid.find("Topology").get("Dimensions").split()]
        steps.append((float(grid.find("Time").get("Value")), mesh, fields))
    return steps


def drawn(field, path: pathlib.Path) -> list[str]:
    """Draws a field from black to white, and says what is wrong with the picture: an even one shows no waves."""
    low, high = field.min(), field.max()
    if not low < high:
        return [f"the field is {low} everywhere"]
    grey = ((field - low) / (high - low) * 255).round().astype("uint8")
    pieces = [(b"IHDR", struct.pack(">IIBBBBB", field.shape[1], field.shape[0], 8, 0, 0, 0, 0)),
              (b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in grey))), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in pieces))
    return [] if len(set(grey.ravel().tolist())) > 16 else ["the picture has fewer than 16 shades"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--extents", type=int, nargs=2, required=True)
    parser.add_argument("--image", type=pathlib.Path)
    given = parser.parse_args()
    steps = steps_of(given.file)
    wrong = [] if len(steps) == given.steps else [f"{len(steps)} steps, expected {given.steps}"]
    volume = None
    for number, (time, mesh, fields) in enumerate(steps):
        if mesh != [n + 1 for n in given.extents]:  # values of cells
            wrong.append(f"step {number}: the mesh has {mesh} points")
        if number and time <= steps[number - 1][0]:
            wrong.append(f"step {number}: the time {time} is not after {steps[number - 1][0]}")
        if sorted(fields) != ["depth", "momentum_down", "momentum_right"]:
            wrong.append(f"step {number}: the fields are {sorted(fields)}")
            continue
        depth = fields["depth"]
        if list(depth.shape) != given.extents:
            wrong.append(f"step {number}: the depth has extents {depth.shape}")
        # No water is lost, and the basin is symmetric.
        volume = volume or depth.sum()
        if abs(depth.sum() - volume) > 1e-10 * volume or abs(depth - depth[::-1, ::-1]).max() > 1e-10:
            wrong.append(f"step {number}: volume {depth.sum()} of {volume}, asymmetric by {abs(depth - depth[::-1, ::-1]).max()}")
    if given.image and not wrong:
        wrong += drawn(steps[-1][2]["depth"], given.image)
    print("\n".join(wrong) if wrong else f"{len(steps)} steps of {len(steps[0][2])} fields are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
