// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>

#include <algorithm>
#include <vector>

namespace cleave {

/// Whether two steps are all-reduces that one message could serve.
constexpr bool reduce_alike(const step& a, element of_a, const step& b, element of_b) {
  return a.kind == step_kind::move && b.kind == step_kind::move && a.move == kind::all_reduce && b.move == kind::all_reduce &&
         a.axes == b.axes && a.combine == b.combine && of_a == of_b;
}

/// Moves all-reduces in place up to the last one before them that is alike, as far as what they combine is computed by then.
/// Adjacent ones that turn out to be small travel as one message. `storage` tells which memory a buffer lives in.
constexpr void bring_reduces_together(std::vector<step>& steps, const std::vector<buffer>& buffers,
                                      const std::vector<std::size_t>& storage) {
  for (std::size_t j = 1; j < steps.size(); ++j) {
    const std::size_t memory = storage[steps[j].out];
    if (steps[j].kind != step_kind::move || steps[j].move != kind::all_reduce || storage[steps[j].in[0]] != memory) continue;
    for (std::size_t i = j; i-- > 0 && steps[i].in_loop == steps[j].in_loop && storage[steps[i].out] != memory;)
      if (reduce_alike(steps[i], buffers[steps[i].out].type.element, steps[j], buffers[steps[j].out].type.element)) {
        std::rotate(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.begin() + static_cast<std::ptrdiff_t>(j),
                    steps.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        break;
      }
  }
}

} // namespace cleave
