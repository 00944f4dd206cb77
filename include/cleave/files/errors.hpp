// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about files, whoever reads or writes them.

namespace cleave { inline namespace v0 { namespace wording {

/// thrown: file_error
/// fix: Look at the folder, its permissions, and the space that is left on its disk, where the ranks run; fields are
/// written by rank 0 of the grid. A file to which a step was not written completely may be damaged: write to another
/// one.
inline constexpr text<2> file_not_written{"cannot write '{path}': {why}"};
/// fix: Look at the path and its permissions. The file must be there on all ranks, and nobody may change it meanwhile.
inline constexpr text<2> file_not_read{"cannot read '{path}': {why}"};
/// fix: The file is damaged, was not copied completely, or has another format than its name says. Copy or write it
/// anew. Compressed npz files are written anew with `numpy.savez`.
inline constexpr text<3> file_malformed{"'{path}' is not a {format} file that can be read: {why}"};
/// fix: Cast the tensor to a type that the format has, or write a checkpoint, which has all types.
inline constexpr text<3> array_not_stored{
    "the format of '{path}' has no type for member '{member}' with elements {element}"};
/// thrown: layout_error
/// fix: A rule has a member and an array with as many `*`, at most one `{i}` in the array, and dims such as
/// "(heads head) embed": each dim of the tensor once, except for the one that `{i}` counts; `0:3` is the first of
/// three.
inline constexpr text<2> name_rule{"the rule for the name of member '{member}' is wrong: {why}"};

}}} // namespace cleave::v0::wording
