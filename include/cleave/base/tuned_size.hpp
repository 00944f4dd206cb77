// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace cleave::inline v0 {

/// A size from which on another way to compute is faster, as measured. With CLEAVE_SMALL_SIZES, which is for tests of
/// the library, it is `in_tests`: then small arrays go the ways of large ones.
constexpr std::int64_t tuned_size([[maybe_unused]] std::int64_t size, [[maybe_unused]] std::int64_t in_tests) {
#ifdef CLEAVE_SMALL_SIZES
  return in_tests;
#else
  return size;
#endif
}

} // namespace cleave::inline v0
