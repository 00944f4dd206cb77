// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>

namespace cleave::inline v0 {

/// A number that is not negative as the standard library wants sizes.
constexpr std::size_t as_size(std::integral auto n) { return static_cast<std::size_t>(n); }

} // namespace cleave::inline v0
