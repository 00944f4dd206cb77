// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about transforms.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: The spectrum of N real numbers has N/2 + 1 values, rounded down. Give this extent to the result of `rfft` or
/// the operand of `irfft`.
[[gnu::cold]] inline std::string spectrum_extent(std::string_view dim, std::int64_t expected, std::int64_t numbers,
                                                 std::int64_t got) {
  return sentence({"dim ", quoted(dim), " needs the extent ", number(expected), " of the spectrum of ", number(numbers),
                   " real numbers, but has ", number(got)});
}
/// mend: FFTW refuses a transform if it has no memory for its plan. For cuFFT, the number at the end is its
/// cufftResult.
[[gnu::cold]] inline std::string transform_failed(std::string_view library, std::int64_t n, std::int64_t code) {
  return sentence({library, " cannot transform ", number(n), " numbers: error ", number(code)});
}

}}} // namespace cleave::v0::wording
