// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/remap.hpp>
#include <cleave/ops/rules/annotation.hpp>
#include <cleave/ops/rules/call.hpp>
#include <cleave/ops/rules/gather.hpp>
#include <cleave/ops/rules/loop.hpp>
#include <cleave/ops/rules/view.hpp>

namespace cleave {

/// The rules of a class of operations.
constexpr const op_rules& rules_of(op_class what) {
  switch (what) {
    case op_class::call:
      return rules::call;
    case op_class::remap:
      return rules::remap;
    case op_class::gather:
      return rules::gather;
    case op_class::scatter:
      return rules::added_rows;
    case op_class::loop:
      return rules::loop;
    case op_class::view:
      return rules::view;
    case op_class::source:
    case op_class::elementwise:
    case op_class::contraction:
    case op_class::reduction:
    case op_class::scan:
    case op_class::annotation:
      break;
  }
  return rules::by_name;
}
constexpr const op_rules& rules_of(const node& n) { return rules_of(class_of(n.code)); }

constexpr factor_list factors_of(const graph& g, const node& n) { return rules_of(n).factors(g, n); }
/// Dims of the result that may not be sharded: those of windows, what a user's kernel needs whole, and the one along
/// which a loop stacks.
constexpr dim_set whole_dims(const graph& g, const node& n) {
  const op_rules& rules = rules_of(n);
  return rules.whole_dims == nullptr ? dim_set{0} : rules.whole_dims(g, n);
}

} // namespace cleave
