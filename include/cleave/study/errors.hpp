// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/fault.hpp>

#include <string>
#include <string_view>

// The sentences of exceptions about plans that are made at run time.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Write rules as `dim / axis`, with commas between them.
inline constexpr text<1> rule_malformed{"layout rules are a list such as heads / model, batch / data, got '{text}'"};
/// fix: Give a dim one rule with all its axes.
inline constexpr text<1> two_rules_for_dim{"dim '{dim}' has two layout rules"};
/// fix: Name an axis of the function's mesh.
inline constexpr text<2> rule_for_unknown_axis{
    "the layout rule of dim '{dim}' names axis '{axis}', which the mesh lacks"};
/// fix: Name a dim of the function.
inline constexpr text<1> rule_for_unknown_dim{"a layout rule names dim '{dim}', which the function lacks"};
/// fix: Name an argument or a result as `arguments()` and `results()` list them; `*` stands for any letters.
inline constexpr text<1> nothing_of_that_name{"no argument and no result has a name like '{pattern}'"};
/// fix: Leave more dims open, or change the layouts that the function pins.
inline constexpr text<0> no_layout_has_a_plan{"no layout of the searched ones has a plan"};
/// fix: Leave more axes without a size, or change the number of devices.
inline constexpr text<1> no_mesh_of_devices{"no variant of the search has a mesh of {devices} devices"};
/// fix: Plan for smaller sizes, or on more devices; `predict` counts in floating point.
inline constexpr text<2> beyond_counting{"a device has more {what} than 64 bits hold, with the sizes {sizes}"};
/// fix: Change the operation that the sentence names, or the layouts.
[[gnu::cold]] inline std::string plan_fault(std::string_view fault, const verdict& v) {
  std::string text(fault);
  const auto add = [&](const char* what, std::string_view name) {
    if (!name.empty()) text.append("; ").append(what).append(" '").append(name).append("'");
  };
  add(v.gradient ? "in the derivative of" : "in", v.op);
  add("dim", v.dim);
  add("axis", v.axis);
  if (v.where.line != 0) text.append("; ").append(v.where.name()).append(":").append(std::to_string(v.where.line));
  return sentence({text});
}

}}} // namespace cleave::v0::wording
