// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about transforms.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: The spectrum of N real numbers has N/2 + 1 values, rounded down. Give this extent to the result of `rfft` or
/// the operand of `irfft`.
inline constexpr text<4> spectrum_extent{
    "dim '{dim}' needs the extent {expected} of the spectrum of {numbers} real numbers, but has {got}"};
/// fix: FFTW refuses a transform if it has no memory for its plan. For cuFFT, the number at the end is its
/// cufftResult.
inline constexpr text<3> transform_failed{"{library} cannot transform {n} numbers: error {code}"};

}}} // namespace cleave::v0::wording
