// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace cleave::inline v0 {

/// A row-major matrix in memory, or its transpose. `leading` elements lie between rows as stored.
struct matrix_ref {
  const void* at = nullptr;
  std::int64_t leading = 1;
  bool transposed = false;
};

} // namespace cleave::inline v0
