#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shards as arrays of numpy and the reverse, through DLPack: what both sides see has the same addresses and values.

The argument is the library made of dlpack_probe.cpp.
"""
import ctypes
import sys
import weakref

import numpy

# A capsule does not copy its name.
NAMES = (b"dltensor", b"dltensor_versioned")
USED = (b"used_dltensor", b"used_dltensor_versioned")


def function(library, name, result, *arguments):
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


python = ctypes.pythonapi
new_capsule = function(python, "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
pointer_of = function(python, "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
rename = function(python, "PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class Shard:
    """What numpy.from_dlpack takes."""

    def __init__(self, pointer: int, versioned: int):
        self.capsule = new_capsule(pointer, NAMES[versioned], None)

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def main() -> int:
    probe = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    shard = function(probe, "probe_shard", ctypes.c_void_p, ctypes.c_int)
    wrap = function(probe, "probe_wrap", ctypes.c_double, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    double = function(probe, "probe_double", ctypes.c_int)
    drop, start, end = (function(probe, name, None) for name in ("probe_drop", "probe_start", "probe_end"))
    start()
    knows_versions = int(numpy.__version__.split(".")[0]) > 2 or numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"
    wrong = []

    def expect(holds: bool, what: str) -> None:
        if not holds:
            wrong.append(what)

    for versioned in (0, 1) if knows_versions else (0,):
        pointer = shard(versioned)
        array = numpy.from_dlpack(Shard(pointer, versioned))
        # DLTensor begins with the address of the data; the versioned struct has it behind 32 bytes.
        address = ctypes.c_void_p.from_address(pointer + 32 * versioned).value
        expect(array.ctypes.data == address, f"{versioned}: numpy has copied a shard")
        expect(array.dtype == numpy.float32 and array.shape == (3, 4), f"{versioned}: {array.dtype} {array.shape}")
        expect((array == 10 * numpy.arange(3)[:, None] + numpy.arange(4)).all(), f"{versioned}: {array}")
        del array

        # Rows of a wider array, so that strides count.
        wide = numpy.arange(40, dtype=numpy.float64).reshape(4, 10)
        part = wide[:, 2:5]
        before = part.copy()
        gone = weakref.ref(part)
        capsule = part.__dlpack__(max_version=(1, 0)) if versioned else part.__dlpack__()
        taken = wrap(pointer_of(capsule, NAMES[versioned]), versioned, 4, 3)
        expect(taken == before.sum(), f"{versioned}: the sum of an array is {taken}, not {before.sum()}")
        rename(capsule, USED[versioned])
        expect(double() == 1, f"{versioned}: an array cannot be written")
        expect((part == 2 * before).all() and wide[0, 5] == 5 and wide[1, 1] == 11, f"{versioned}: {wide}")
        del capsule, part
        expect(gone() is not None, f"{versioned}: an array went away under its tensor")
        drop()
        expect(gone() is None, f"{versioned}: the deleter of an array was not called")

        # Refused, and left to its owner; what is wrong is printed.
        other = numpy.zeros((4, 3), dtype=numpy.float32)
        capsule = other.__dlpack__(max_version=(1, 0)) if versioned else other.__dlpack__()
        expect(wrap(pointer_of(capsule, NAMES[versioned]), versioned, 4, 3) == -1, f"{versioned}: float32 is taken")
    if knows_versions:
        constants = numpy.ones((4, 3))
        constants.flags.writeable = False
        capsule = constants.__dlpack__(max_version=(1, 0))
        expect(wrap(pointer_of(capsule, NAMES[1]), 1, 4, 3) == 12, "an array that is only read is not taken")
        rename(capsule, USED[1])
        expect(double() == 0 and constants[0, 0] == 1, "an array that is only read was written")
        drop()
    end()
    print("\n".join(wrong) if wrong else f"numpy {numpy.__version__} and Cleave share memory")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
