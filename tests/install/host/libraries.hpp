// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

// Two libraries that use Cleave, and do not say so in their headers.

namespace first {
/// The sum of squares of a matrix of 5 x 3 numbers 10 i + j.
double squares(MPI_Comm comm);
} // namespace first

namespace second {
/// The largest difference between neighbours in a row of such a matrix, each squared: 0 before the first one.
double steepest(MPI_Comm comm);
} // namespace second
