// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>
#include <cleave/type/narrow.hpp>

namespace cleave::inline v0 {

namespace detail {
template <class From, class To>
struct convert_functor {
  const From* from;
  To* to;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { to[i] = static_cast<To>(computed<From>(from[i])); }
};
} // namespace detail

/// Copies an array into another element type, rounding each element once.
template <class From, class To>
void convert_elements(const From* from, To* to, std::int64_t n) {
  launch("cleave convert", n, detail::convert_functor<From, To>{from, to});
}

} // namespace cleave::inline v0
