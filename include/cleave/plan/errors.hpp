// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about sizes for which a plan is asked.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Name dims and axes of the function.
inline constexpr text<1> size_of_unknown_name{
    "a size is given for '{name}', but the function has no dim and no axis of that name"};
/// fix: Name each dim and axis once.
inline constexpr text<1> size_given_twice{"two sizes are given for '{name}'"};
/// fix: Omit the size, or give the one that the type has.
inline constexpr text<3> size_is_fixed{"the size of '{name}' is given as {got}, but its type fixes it to {expected}",
                                       {"name", "expected", "got"}};
/// fix: The extent of a dim is at least 0, and an axis has at least one device.
inline constexpr text<3> size_too_small{"the size of '{name}' is {got}; it must be at least {least}",
                                        {"name", "least", "got"}};

}}} // namespace cleave::v0::wording
