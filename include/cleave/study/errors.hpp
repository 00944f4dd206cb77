// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/fault.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about plans that are made at run time.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Write rules as `dim / axis`, with commas between them.
[[gnu::cold]] inline std::string rule_malformed(std::string_view text) {
  return sentence({"layout rules are a list such as heads / model, batch / data, got ", quoted(text)});
}
/// mend: Give a dim one rule with all its axes.
[[gnu::cold]] inline std::string two_rules_for_dim(std::string_view dim) {
  return sentence({"dim ", quoted(dim), " has two layout rules"});
}
/// mend: Name an axis of the function's mesh.
[[gnu::cold]] inline std::string rule_for_unknown_axis(std::string_view dim, std::string_view axis) {
  return sentence({"the layout rule of dim ", quoted(dim), " names axis ", quoted(axis), ", which the mesh lacks"});
}
/// mend: Name a dim of the function.
[[gnu::cold]] inline std::string rule_for_unknown_dim(std::string_view dim) {
  return sentence({"a layout rule names dim ", quoted(dim), ", which the function lacks"});
}
/// mend: Name an argument or a result as `arguments()` and `results()` list them; `*` stands for any letters.
[[gnu::cold]] inline std::string nothing_of_that_name(std::string_view pattern) {
  return sentence({"no argument and no result has a name like ", quoted(pattern)});
}
/// mend: Leave more dims open, or change the layouts that the function pins.
[[gnu::cold]] inline std::string no_layout_has_a_plan() {
  return sentence({"no layout of the searched ones has a plan"});
}
/// mend: Change the operation that the sentence names, or the layouts.
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
