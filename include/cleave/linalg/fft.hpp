// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Fourier transforms: docs/07-linear-algebra.md. Link the target Cleave::fft. On the host it is FFTW, on CUDA cuFFT.

#include <cleave/linalg/fft_kernels.hpp>
#include <cleave/linalg/fft_recorded.hpp>
#include <cleave/shards.hpp>
