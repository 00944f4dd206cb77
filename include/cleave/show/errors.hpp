// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about pictures and records.

namespace cleave { inline namespace v0 { namespace wording {

/// thrown: file_error
/// fix: Read a text that `to_json` has written.
inline constexpr text<1> no_json_of_a_plan{"the text is not the JSON of a plan: {why}"};

/// fix: Give a size to each dim and each axis of the layout that has none in its type.
inline constexpr text<1> size_to_draw_is_not_given{"the size of '{name}' must be given once to draw the layout"};

}}} // namespace cleave::v0::wording
