// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about iterative methods.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Round the number of iterations, and check how it was computed.
inline constexpr text<1> iterations_not_a_count{
    "the most iterations of a solve are a whole number from 0 to 2147483647, but {got} was given"};

}}} // namespace cleave::v0::wording
