// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// What a node that computes nothing says about its operand.
enum class annotation : std::uint8_t {
  none,
  /// The layout of a whole value, which is not that of partial sums.
  whole_layout,
  /// How positions are sharded, whole or partial: a constraint on a gradient.
  sharding,
  /// The very layout, by a move of its own.
  moved_layout,
  /// What is beyond it is computed again.
  recomputed,
};
constexpr annotation annotation_of(const node& n) {
  switch (n.code) {
    case op::constrain: return n.gradient ? annotation::sharding : annotation::whole_layout;
    case op::reshard: return annotation::moved_layout;
    case op::barrier: return annotation::recomputed;
    default: return annotation::none;
  }
}

constexpr std::uint32_t traits_of_annotation(const node& n) {
  switch (annotation_of(n)) {
    case annotation::moved_layout: return planner::fixed_strategy;
    case annotation::recomputed: return planner::transparent_if_whole;
    case annotation::whole_layout: return planner::keeps_whole;
    case annotation::sharding:
    case annotation::none: break;
  }
  return 0;
}

inline constexpr op_rules annotated{
    .what = op_class::annotation,
    .factors = &factors_by_name,
    .traits_of = &traits_of_annotation,
};

} // namespace cleave::rules
