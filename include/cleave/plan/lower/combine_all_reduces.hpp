// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/buckets.hpp>

#include <algorithm>

namespace cleave::inline v0 {

namespace lowering {

/// Moves all-reduces in place up to the last one before them that is alike, as far as what they combine is computed by
/// then. Adjacent ones that turn out to be small travel as one message. `memory` tells in which memory a buffer is.
constexpr void combine_all_reduces(indexed_vector<step>& steps, const indexed_vector<buffer>& buffers,
                                   const indexed_vector<std::size_t>& memory) {
  const auto alike = [&](const step& a, const step& b) {
    return reduce_alike(a, buffers[a.out].type.element, b, buffers[b.out].type.element);
  };
  for (std::size_t j = 1; j < steps.size(); ++j) {
    const step& late = steps[j];
    const std::size_t own = memory[late.out];
    if (late.kind != step_kind::move || late.move != kind::all_reduce || memory[late.in[0]] != own) continue;
    for (std::size_t i = j; i-- > 0 && steps[i].in_loop == late.in_loop && memory[steps[i].out] != own;) {
      if (!alike(steps[i], late)) continue;
      const auto at = [&](std::size_t k) { return steps.begin() + static_cast<std::ptrdiff_t>(k); };
      std::rotate(at(i + 1), at(j), at(j + 1));
      break;
    }
  }
}

} // namespace lowering

} // namespace cleave::inline v0
