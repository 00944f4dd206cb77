// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about sizes for which a plan is asked.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Name dims and axes of the function.
[[gnu::cold]] inline std::string size_of_unknown_name(std::string_view name) {
  return sentence({"a size is given for ", quoted(name), ", but the function has no dim and no axis of that name"});
}
/// mend: Name each dim and axis once.
[[gnu::cold]] inline std::string size_given_twice(std::string_view name) {
  return sentence({"two sizes are given for ", quoted(name)});
}
/// mend: Omit the size, or give the one that the type has.
[[gnu::cold]] inline std::string size_is_fixed(std::string_view name, std::int64_t expected, std::int64_t got) {
  return sentence(
      {"the size of ", quoted(name), " is given as ", number(got), ", but its type fixes it to ", number(expected)});
}
/// mend: The extent of a dim is at least 0, and an axis has at least one device.
[[gnu::cold]] inline std::string size_too_small(std::string_view name, std::int64_t least, std::int64_t got) {
  return sentence({"the size of ", quoted(name), " is ", number(got), "; it must be at least ", number(least)});
}

}}} // namespace cleave::v0::wording
