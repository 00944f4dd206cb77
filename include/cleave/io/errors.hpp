// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about files.

namespace cleave { inline namespace v0 { namespace wording {

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
/// thrown: memory_error
/// mend: Use more devices, or free memory before the call. A checkpoint that is written asynchronously needs as much
/// memory as the state.
[[gnu::cold]] inline std::string no_memory_for_files(std::int64_t rank) {
  return sentence({"rank ", number(rank), " has not enough memory for what it reads from files or writes to them"});
}
/// mend: Names end in .safetensors, .safetensors.index.json (to be read only), .npz or .npy.
[[gnu::cold]] inline std::string file_format(std::string_view path) {
  return sentence({"the name ", quoted(path), " tells no format of arrays"});
}
/// mend: Add rules to the table `names`, as in {"layers.*.kernel", "encoder.layer.{i}.*.weight"}, or name the members
/// in `keep` if they are to keep their values.
[[gnu::cold]] inline std::string arrays_missing(std::string_view path, std::string_view members) {
  return sentence({quoted(path), " has no arrays for these members: ", members});
}
/// mend: Name the arrays in `ignore`; {"*"} ignores all that no member has.
[[gnu::cold]] inline std::string arrays_surplus(std::string_view path, std::string_view arrays) {
  return sentence({quoted(path), " has arrays for no member: ", arrays});
}
/// mend: Construct the tensor with as many dims as the array has, or say in the table `names` which dims lie along its
/// axes, as in "(heads head) embed".
[[gnu::cold]] inline std::string array_rank(std::string_view path, std::string_view array, std::string_view member,
                                            std::int64_t expected, std::int64_t got) {
  return sentence({"member ", quoted(member), " needs an array with ", number(expected), " axes, but ", quoted(array),
                   " in ", quoted(path), " has ", number(got)});
}
/// mend: Construct the tensor with the extents of the array. If the dims have another order in the file, say so in the
/// table `names`.
[[gnu::cold]] inline std::string array_extent(std::string_view path, std::string_view array, std::string_view member,
                                              std::string_view dims, std::int64_t expected, std::int64_t got) {
  return sentence({"member ", quoted(member), " needs the extent ", number(expected), " along ", quoted(dims), ", but ",
                   quoted(array), " in ", quoted(path), " has ", number(got)});
}
/// mend: Use a tensor of the array's element type, and `cast` it.
[[gnu::cold]] inline std::string array_element(std::string_view path, std::string_view array, std::string_view member,
                                               std::string_view expected, std::string_view got) {
  return sentence({"member ", quoted(member), " has elements ", expected, ", but ", quoted(array), " in ", quoted(path),
                   " has ", got});
}
/// mend: The file was damaged after it was written. Read another copy, or an earlier checkpoint.
[[gnu::cold]] inline std::string array_damaged(std::string_view path, std::string_view array, std::int64_t block) {
  return sentence({"block ", number(block), " of ", quoted(array), " in ", quoted(path),
                   " has another checksum than when it was written"});
}
/// mend: An element of type bool is a byte 0 or 1. Read the array into a tensor of `std::uint8_t`.
[[gnu::cold]] inline std::string array_no_bool(std::string_view path, std::string_view member) {
  return sentence({"the elements for member ", quoted(member), " in ", quoted(path), " are no bools"});
}
/// mend: Arrays in one file have different names. Parts of one array are each written once, as in "(0:3 embed)".
[[gnu::cold]] inline std::string array_twice(std::string_view path, std::string_view array) {
  return sentence(
      {"the members that are written to ", quoted(array), " in ", quoted(path), " do not make up one array"});
}
/// thrown: layout_error
/// mend: Assign the tensor to one whose layout is not unreduced, and use that.
[[gnu::cold]] inline std::string member_partial(std::string_view member) {
  return sentence({"member ", quoted(member), " is partial, and files have whole values only"});
}
/// mend: Look at the path. A run that ended before its first checkpoint was complete leaves none.
[[gnu::cold]] inline std::string checkpoint_none(std::string_view folder) {
  return sentence({"there is no checkpoint in ", quoted(folder)});
}
/// mend: Steps are at least 0. Restore from the latest checkpoint, or remove the folders of later ones before the run
/// continues from an earlier one.
[[gnu::cold]] inline std::string checkpoint_exists(std::string_view folder, std::int64_t step) {
  return sentence(
      {"there is a checkpoint of step ", number(step), " in ", quoted(folder), ", or the step is negative"});
}
/// mend: All ranks write to one folder, on a disk that they share.
[[gnu::cold]] inline std::string checkpoint_not_seen(std::string_view folder, std::int64_t rank) {
  return sentence({"rank 0 does not see what rank ", number(rank), " has written to ", quoted(folder)});
}

}}} // namespace cleave::v0::wording
