# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Cleave(CMakePackage):
    """Header-only C++20 library for sharded tensor programs. The compiler partitions them;
    Kokkos, Kokkos Kernels and MPI run them."""

    # The repository that this recipe lies in: what is checked out is what is installed.
    git = pathlib.Path(__file__).resolve().parents[6].as_uri()

    license("Apache-2.0 WITH LLVM-exception")

    version("main", branch="main")

    variant("fft", default=True, description="Bring FFTW, which Fourier transforms need")
    variant("checked", default=False, description="Turn checked mode on in all programs")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi@3.1:")
    depends_on("blas")
    depends_on("kokkos@4.7:")
    depends_on("kokkos-kernels@4.7: +blas")
    depends_on("fftw@3.3: precision=float,double", when="+fft")

    conflicts("%gcc@:11", msg="Cleave needs g++ 12 or later")
    conflicts("%clang@:15", msg="Cleave needs clang 16 or later")

    def cmake_args(self):
        return [
            self.define("CLEAVE_SUPPLY", False),
            self.define("CLEAVE_USE_CACHE", False),
            self.define("CLEAVE_BUILD_TESTS", False),
            self.define("CLEAVE_BUILD_BENCH", False),
            self.define("CLEAVE_BUILD_EXAMPLES", False),
            self.define_from_variant("CLEAVE_CHECKED", "checked"),
        ]
