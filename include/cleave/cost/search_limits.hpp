// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace cleave { inline namespace v0 {

/// How far the search for strategies looks. Every number with its unit and its reason; none of them decides whether a
/// plan is correct.
struct search_limits {
  /// Sweeps over the graph, each forward and backward; the bound ends cycles of changes that differ by rounding. With 3
  /// the plans of 20,000 fuzzed programs are the same.
  int sweeps = 6;
  /// Sweeps after a merge became an exchange, or a value is moved for all its readers. With 6 the plans of 20,000
  /// fuzzed programs are the same.
  int merge_sweeps = 2;
  /// Nodes that follow a change of one node before the ripple stops: most of the time of planning grows with it. With
  /// 64, 34 plans of 20,000 fuzzed programs differ, of which 25 are cheaper and 3 more expensive.
  std::size_t ripple = 32;
  /// Ops through which the origin of a partial sum is followed upwards, to reduce it there. Not measured.
  static constexpr std::size_t partial_chain = 8;
  /// Ops downstream whose moves count as savings that a change may make, see saved_at_most. Not measured.
  int downstream = 4;
  /// Ops through which slices are looked for above an operation that costs something. Not measured.
  std::uint8_t slices_above = 8;
  /// Ops downstream of an exchange whose readers' layouts it is tried in. Not measured.
  int exchanged_through = 6;
  /// Nodes that are changed together if a value is moved for all its downstream values, see move_once. Of the plans of
  /// 20,000 fuzzed programs, 52 are more expensive with 16 than with 64 and 10 cheaper. Gradients of programs with
  /// branches need more than 64.
  std::size_t led_at_most = 256;
  /// A move for all consumers of a value is tried if it costs at most so many times the possible saving, see move_once:
  /// others may stop moving that are not counted. The 973 recorded programs move 2,718,767 bytes with 1 and 2,704,433
  /// with 2 or 3. With no limit, a cross entropy of the oracle needs an effort of more than 300 instead of 100.
  double moved_for_saving = 2;
  /// Ops upstream that are changed together with their readers, see move_earlier. Of the plans of 20,000 fuzzed
  /// programs, 445 are more expensive with 1, 63 with 4, 24 with 6; with 16, 12 are cheaper and 4 more expensive. The
  /// calls of planning the program of tests/planning do not depend on it.
  int pulled_through = 8;
  /// Changes that move_earlier tries if the policy asks for no effort. Of the plans of 20,000 fuzzed programs, 368 are
  /// more expensive with 0, 82 with 6, 20 with 12; with 48, one is cheaper. The search for a plan of the program of
  /// tests/planning takes 0.3 % more calls with 24 than with 12, and 1.1 % more again with 48.
  int pulled_at_most = 24;
  /// The share of the whole price from which copies that a product shares with other readers are worth a try, see
  /// read_apart: a try takes as many calls as a tenth of the search for the plan of tests/planning.
  double shared_at_least = 1.0 / 32;
  /// Cheap ops through which a layout counts as written by the user, in search of ties. Not measured.
  int written_through = 12;
  /// Edges around a node that are part of its fingerprint. Residual layers are one edge apart. Not measured.
  int fingerprint_radius = 3;
  /// Relative difference of prices below which two plans cost the same: sums of a few thousand doubles are rounded to
  /// about 1e-13.
  double equal_prices = 1e-12;
  /// Relative surplus of floating-point work that is rounding, not repeated work.
  double equal_work = 1e-9;
  /// The price, in the policy's units, of repeating work that the policy forbids, times the surplus: above any bytes of
  /// a plan.
  double forbidden_work = 1e15;
  /// The bound at which sums of moves downstream stop growing: values reached in two ways count twice, so long chains
  /// double them often, and a sum must stay a number.
  double largest_sum = 1e100;
};

}} // namespace cleave::v0
