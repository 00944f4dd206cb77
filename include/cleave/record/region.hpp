// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/record/value.hpp>

namespace cleave::inline v0 {

/// A stretch of the graph with a derivative of its own: nodes from `first` to before `last`.
struct special_region {
  /// Records the cotangents of the arguments from the residuals and the cotangents of the results.
  using backward_rule = optional_function<indexed_vector<value>(indexed_span<const value> residuals,
                                                                indexed_span<const value> cotangents)>;

  node_id first = 0;
  node_id last = 0;
  /// The loop in which it was recorded.
  std::uint8_t loop = 0;
  /// Not given, and nothing recorded ahead: the stretch is recorded again for the backward pass, instead of keeping its
  /// values.
  backward_rule backward{};
  indexed_vector<value> arguments{};
  indexed_vector<value> results{};
  indexed_vector<value> residuals{};
  /// In place of a rule: the cotangents of the arguments, recorded from node `ahead` on for stand-ins of those of the
  /// results.
  node_id ahead = 0;
  indexed_vector<value> stand_ins{};
  indexed_vector<value> cotangents{};

  constexpr bool own_derivative() const { return backward.given || !cotangents.empty(); }
};

} // namespace cleave::inline v0
