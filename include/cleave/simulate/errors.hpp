// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about evaluation and simulation.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Give one array for each argument, in the order of the function's parameters. An aggregate has one for each of
/// its tensors.
[[gnu::cold]] inline std::string arrays_needed(std::int64_t expected, std::int64_t got) {
  return sentence({"the program has ", number(expected), " arguments, but ", number(got), " arrays were given"});
}
/// mend: Give the array the extents that the sizes of the call give to the argument's dims, in the written order.
[[gnu::cold]] inline std::string array_extents(std::int64_t argument) {
  return sentence({"the array for argument ", number(argument), " does not have the extents of the argument"});
}
/// mend: Give sizes that fit together: the extent of a dim that is split or merged is the product of the extents of its
/// parts. `plan.sized({...})` computes those that follow from others.
[[gnu::cold]] inline std::string sizes_contradict(std::string_view op) {
  return sentence({"the sizes that were given contradict each other: a ", op, " changes the number of elements"});
}
/// mend: Run the program on one device, and compare with that.
[[gnu::cold]] inline std::string not_on_doubles() {
  return "cleave: complex numbers can be neither evaluated nor simulated, because arrays hold doubles";
}
/// mend: Give the operation a static function `reference`, which computes it on doubles.
[[gnu::cold]] inline std::string reference_missing(std::string_view op) {
  return sentence(
      {"the operation ", quoted(op), " has no reference function, so it can be neither evaluated nor simulated"});
}

}}} // namespace cleave::v0::wording
