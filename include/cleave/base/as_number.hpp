// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstdint>

namespace cleave::inline v0 {

/// An integer that is known to fit into an int: a number of dims, operands, buffers or ranks. `narrowed` checks.
constexpr int as_int(std::integral auto n) { return static_cast<int>(n); }
/// A size as a signed number.
constexpr std::int64_t as_signed(std::integral auto n) { return static_cast<std::int64_t>(n); }
/// An integer as a floating-point number, rounded from 2^53 on.
constexpr double as_double(std::integral auto n) { return static_cast<double>(n); }
/// Whether a number has no fraction and fits into 64 bits.
constexpr bool is_whole(double x) { return x >= -0x1p63 && x < 0x1p63 && as_double(static_cast<std::int64_t>(x)) == x; }

} // namespace cleave::inline v0
