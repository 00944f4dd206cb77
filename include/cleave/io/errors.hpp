// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about files.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Fields are data sets of HDF5: give a name that is not empty, is not '.', and has no '/'.
inline constexpr text<1> field_name{"a field in a file cannot have the name '{name}'"};
/// fix: Give each field of a step another name.
inline constexpr text<1> field_twice{"two fields of one step have the name '{name}'"};
/// fix: The fields of a step lie on the same points. Write fields with other extents to another file.
inline constexpr text<4> field_extents{
    "the extents of field '{first}' are {expected}, but those of '{name}' in the same step are {got}"};
/// fix: Give `spacing` and `origin` one number for each dim of the fields, in their order, or none.
inline constexpr text<4> field_numbers{"field '{name}' has {expected} dims, but {what} has {got} numbers"};
/// thrown: memory_error
/// fix: Use more devices, or free memory before the call. A checkpoint that is written asynchronously needs as much
/// memory as the state.
inline constexpr text<1> no_memory_for_files{
    "rank {rank} has not enough memory for what it reads from files or writes to them"};
/// thrown: file_error
/// fix: Throw exceptions that are derived from std::exception.
inline constexpr text<1> unknown_exception{"an exception of unknown type was thrown on rank {rank}"};
/// fix: Use a smaller batch. An epoch has whole batches only.
inline constexpr text<2> too_few_records{"{records} records are no batch of {rows} rows"};
/// fix: Names end in .safetensors, .safetensors.index.json (to be read only), .npz or .npy.
inline constexpr text<1> file_format{"the name '{path}' tells no format of arrays"};
/// fix: Add rules to the table `names`, as in {"layers.*.kernel", "encoder.layer.{i}.*.weight"}, or name the members
/// in `keep` if they are to keep their values.
inline constexpr text<2> arrays_missing{"'{path}' has no arrays for these members: {members}"};
/// fix: Name the arrays in `ignore`; {"*"} ignores all that no member has.
inline constexpr text<2> arrays_surplus{"'{path}' has arrays for no member: {arrays}"};
/// fix: Construct the tensor with as many dims as the array has, or say in the table `names` which dims lie along its
/// axes, as in "(heads head) embed".
inline constexpr text<5> array_rank{
    "member '{member}' needs an array with {expected} axes, but '{array}' in '{path}' has {got}",
    {"path", "array", "member", "expected", "got"}};
/// fix: Construct the tensor with the extents of the array. If the dims have another order in the file, say so in the
/// table `names`.
inline constexpr text<6> array_extent{
    "member '{member}' needs the extent {expected} along '{dims}', but '{array}' in '{path}' has {got}",
    {"path", "array", "member", "dims", "expected", "got"}};
/// fix: Use a tensor of the array's element type, and `cast` it. If floating-point numbers may be rounded, set the
/// option `rounds`.
inline constexpr text<5> array_element{"member '{member}' has elements {expected}, but '{array}' in '{path}' has {got}",
                                       {"path", "array", "member", "expected", "got"}};
/// fix: The file was damaged after it was written. Read another copy, or an earlier checkpoint.
inline constexpr text<3> array_damaged{
    "block {block} of '{array}' in '{path}' has another checksum than when it was written", {"path", "array", "block"}};
/// fix: An element of type bool is a byte 0 or 1. Read the array into a tensor of `std::uint8_t`.
inline constexpr text<2> array_no_bool{"the elements for member '{member}' in '{path}' are no bools",
                                       {"path", "member"}};
/// fix: Arrays in one file have different names. Parts of one array are each written once, as in "(0:3 embed)".
inline constexpr text<2> array_twice{"the members that are written to '{array}' in '{path}' do not make up one array",
                                     {"path", "array"}};
/// thrown: layout_error
/// fix: Assign the tensor to one whose layout is not unreduced, and use that.
inline constexpr text<1> member_partial{"member '{member}' is partial, and files have whole values only"};
/// fix: Look at the path. A run that ended before its first checkpoint was complete leaves none.
inline constexpr text<1> checkpoint_none{"there is no checkpoint in '{folder}'"};
/// fix: Steps are at least 0. Restore from the latest checkpoint, or remove the folders of later ones before the run
/// continues from an earlier one.
inline constexpr text<2> checkpoint_exists{
    "there is a checkpoint of step {step} in '{folder}', or the step is negative", {"folder", "step"}};
/// fix: All ranks write to one folder, on a disk that they share.
inline constexpr text<2> checkpoint_not_seen{"rank 0 does not see what rank {rank} has written to '{folder}'",
                                             {"folder", "rank"}};

}}} // namespace cleave::v0::wording
