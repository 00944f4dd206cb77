// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/choose.hpp>
#include <cleave/plan/lower/allocate.hpp>
#include <cleave/plan/lower/emit.hpp>
#include <cleave/plan/lower/join_passes.hpp>
#include <cleave/plan/lower/overlap_exchanges.hpp>
#include <cleave/plan/lower/overlap_moves.hpp>
#include <cleave/plan/lower/overlap_products.hpp>
#include <cleave/plan/lower/panels.hpp>
#include <cleave/plan/lower/ranges.hpp>
#include <cleave/plan/lower/scale_products.hpp>
#include <cleave/plan/lower/split_values.hpp>
#include <cleave/plan/lower/verify.hpp>

#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

/// The steps of a graph under given strategies.
///
/// Each pass is verified. The compiler checks the finished program alone: a mistake of an earlier pass makes it wrong
/// or more expensive, never silently different; a check of each pass costs as much as the pass. Unit tests, the oracle
/// and the fuzzer, which run the same code at run time, check all of them.
constexpr program lower(const graph& g, const choice& chosen, const sizes& at, const policy& rule) {
  const lowering::assigned_graph in{g, chosen.by_node, chosen.factors, at, rule, chosen.copies};
  bool sound = true;
  const auto check = [&](const auto&... made) {
    if (!std::is_constant_evaluated()) sound = sound && lowering::verify(made...);
  };
  const lowering::partitioned values = lowering::split_values(in);
  check(in, values);
  const lowering::fusion fused = lowering::fuse(in, values);
  check(in, values, fused);
  const lowering::storage_plan placed = lowering::place(in, values, fused);
  check(values, fused, placed);
  lowering::emitted steps = lowering::emit(in, values, fused, placed);
  check(steps);
  if (rule.workspace > 0) {
    lowering::panel_gathering(steps, at, rule.workspace).run();
    check(steps);
  }
  lowering::scale_products(steps);
  check(steps);
  lowering::pass_joining(steps).run();
  check(steps);
  lowering::range_cutting(steps.made).run();
  lowering::combine_all_reduces(steps.made.steps, steps.made.buffers, steps.memory);
  check(steps);
  if (rule.overlap) lowering::overlap_products(steps, at, rule);
  check(steps);
  lowering::combine_exchanges(steps.made.steps, steps.made.buffers, steps.made.maps, steps.memory);
  lowering::overlap_exchanges(steps.made.steps, steps.made.buffers, steps.made.maps, steps.memory);
  check(steps);
  if (rule.overlap) lowering::overlap_moves(steps, at, rule);
  check(steps);
  program made = lowering::allocate(std::move(steps));
  lowering::find_lookups_of_products(made);
  // Moves in flight hold memory.
  if (rule.workspace > 0 && rule.overlap && workspace(made, at) > rule.workspace) {
    policy one_by_one = rule;
    one_by_one.overlap = false;
    return lower(g, chosen, at, one_by_one);
  }
  if (!sound || !verify(made)) made.found = {fault::internal, {}, "lower"};
  return made;
}

}} // namespace cleave::v0
