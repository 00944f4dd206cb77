// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about files of fields.

namespace cleave { inline namespace v0 { namespace wording {

/// thrown: file_error
/// mend: Look at the folder, its permissions, and the space that is left on its disk, where rank 0 of the grid runs. A
/// file to which a step was not written completely may be damaged: write to another one.
[[gnu::cold]] inline std::string file_not_written(std::string_view path, std::string_view why) {
  return sentence({"cannot write ", quoted(path), ": ", why});
}
/// mend: Fields are data sets of HDF5: give a name that is not empty, is not '.', and has no '/'.
[[gnu::cold]] inline std::string field_name(std::string_view name) {
  return sentence({"a field in a file cannot have the name ", quoted(name)});
}
/// mend: Give each field of a step another name.
[[gnu::cold]] inline std::string field_twice(std::string_view name) {
  return sentence({"two fields of one step have the name ", quoted(name)});
}
/// mend: The fields of a step lie on the same points. Write fields with other extents to another file.
[[gnu::cold]] inline std::string field_extents(std::string_view first, std::string_view expected, std::string_view name,
                                               std::string_view got) {
  return sentence({"the extents of field ", quoted(first), " are ", expected, ", but those of ", quoted(name),
                   " in the same step are ", got});
}
/// mend: Give `spacing` and `origin` one number for each dim of the fields, in their order, or none.
[[gnu::cold]] inline std::string field_numbers(std::string_view name, std::int64_t expected, std::string_view what,
                                               std::int64_t got) {
  return sentence(
      {"field ", quoted(name), " has ", number(expected), " dims, but ", what, " has ", number(got), " numbers"});
}

}}} // namespace cleave::v0::wording
