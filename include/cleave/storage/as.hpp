// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>

namespace cleave::inline v0 {

/// Memory as an array of T.
template <class T>
CLEAVE_FUNCTION inline T* as(void* at) {
  return static_cast<T*>(at);
}
template <class T>
CLEAVE_FUNCTION inline const T* as(const void* at) {
  return static_cast<const T*>(at);
}

} // namespace cleave::inline v0
