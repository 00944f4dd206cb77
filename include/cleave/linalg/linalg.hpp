// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Cholesky factors and triangular systems, batched over all other dims: docs/07-linear-algebra.md.

#include <cleave/linalg/kernels.hpp>
#include <cleave/linalg/recorded.hpp>
#include <cleave/linalg/tall_qr.hpp>
