// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <string>
#include <string_view>

// The sentences of exceptions about pictures and records.

namespace cleave { inline namespace v0 { namespace wording {

/// thrown: file_error
/// mend: Read a text that `to_json` has written.
[[gnu::cold]] inline std::string no_json_of_a_plan(std::string_view why) {
  return sentence({"the text is not the JSON of a plan: ", why});
}

/// mend: Give a size to each dim and each axis of the layout that has none in its type.
[[gnu::cold]] inline std::string size_to_draw_is_not_given(std::string_view name) {
  return sentence({"the size of ", quoted(name), " must be given once to draw the layout"});
}

}}} // namespace cleave::v0::wording
