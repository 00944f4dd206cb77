// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

namespace cleave::inline v0 {

/// Memory that steps hold until they are waited for: where it begins, by step, and how much it is together.
struct held_memory {
  indexed_vector<std::int64_t> begin{};
  std::int64_t bytes = 0;
};

/// Steps that are not in flight together have the same memory. `needed` are the bytes of each step; each gets the
/// lowest place that is free.
[[gnu::cold]] constexpr held_memory share_until_waited(const program_view& p,
                                                       const indexed_vector<std::int64_t>& needed) {
  held_memory all{indexed_vector<std::int64_t>(p.steps.size(), 0), 0};
  // Those in flight, by where their memory begins.
  indexed_vector<std::size_t> open;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    if (p.steps[i].kind == step_kind::wait) open.remove(std::size_t{p.steps[i].begun});
    if (needed[i] == 0) continue;
    std::int64_t place = 0;
    std::size_t before = 0;
    while (before < open.size() && all.begin[open[before]] < place + aligned(needed[i])) {
      const std::size_t other = open[before++];
      place = std::max(place, all.begin[other] + aligned(needed[other]));
    }
    all.begin[i] = place;
    all.bytes = std::max(all.bytes, place + aligned(needed[i]));
    while (before > 0 && all.begin[open[before - 1]] > place) --before;
    open.insert(open.begin() + static_cast<std::ptrdiff_t>(before), i);
  }
  return all;
}

} // namespace cleave::inline v0
