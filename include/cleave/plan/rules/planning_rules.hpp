// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/policy.hpp>
#include <cleave/plan/strategy.hpp>

#include <array>
#include <vector>

namespace cleave::detail {

struct cost_model;
struct assignment;

/// What the search asks of a class of operations beside its factors. One file a class, in plan/rules/.
struct planning_rules {
  /// What the step of a node moves itself; null: nothing.
  cost (*moves)(const cost_model&, std::size_t v, const strategy&) = nullptr;
  /// Whether prices of moves are remembered by the node's maps: enumerating who lacks what takes long.
  bool remembered = false;
  /// Floating-point operations of one device; null: they do not count.
  double (*flops)(const cost_model&, std::size_t v, const strategy&) = nullptr;
  /// Adds strategies beyond those that operands and readers suggest; null: there are none.
  void (*offer)(const cost_model&, assignment&, std::size_t v, std::vector<strategy>&) = nullptr;
  /// Whether a strategy is possible that the factors allow; null: all are.
  bool (*possible)(const cost_model&, std::size_t v, const strategy&) = nullptr;
  /// Whether each way to shard its factors is forced in turn where the policy asks for more effort.
  bool forced = false;
  /// Whether products may follow a change of it.
  bool leads_products = false;
};

/// By op_class.
using planning_rules_table = std::array<planning_rules, op_class_count>;

} // namespace cleave::detail
