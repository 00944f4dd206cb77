// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string_view>

namespace cleave {

/// The collectives and local moves of a plan.
enum class kind : std::uint8_t {
  none,
  slice,
  mask,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  collective_permute,
  /// Elements under other indices: each device fetches the elements that it lacks. Halos, shifts, slices,
  /// concatenations, look-ups, sorting.
  exchange,
  /// One value for each slice, combined over the devices before: an exclusive prefix scan.
  scan,
};

constexpr std::string_view name_of(kind k) {
  constexpr std::string_view names[] = {"none",       "slice",      "mask",      "all_reduce", "reduce_scatter",
                                        "all_gather", "all_to_all", "collective_permute", "exchange", "scan"};
  return names[static_cast<int>(k)];
}

} // namespace cleave
