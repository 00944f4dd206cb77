// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace cleave::inline v0 {

/// Rounds bytes up to whole cache lines, so that the next buffer starts at one.
constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace cleave::inline v0
