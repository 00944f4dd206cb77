// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about tensors, their extents and their Views.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Give the elements of the whole tensor, row-major, on the rank that they come from.
[[gnu::cold]] inline std::string elements_given(std::int64_t expected, std::int64_t got) {
  return sentence({"the tensor has ", number(expected), " elements, but ", number(got), " were given"});
}
/// mend: Give a list of sizes for each dim, in the order of the tensor's dims; an empty one stands for its own blocks.
[[gnu::cold]] inline std::string block_lists(std::int64_t expected, std::int64_t got) {
  return sentence({"the tensor has ", number(expected), " dims, but block sizes were given for ", number(got)});
}
/// mend: Give a size for each block: as many as devices over which the layout shards the dim.
[[gnu::cold]] inline std::string block_count(std::string_view dim, std::int64_t expected, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " has ", number(expected), " blocks, but ", number(got), " sizes were given"});
}
/// mend: Give sizes that add up to the extent of the dim.
[[gnu::cold]] inline std::string block_sum(std::string_view dim, std::int64_t expected, std::int64_t got) {
  return sentence(
      {"the block sizes of dim ", quoted(dim), " add up to ", number(got), ", but its extent is ", number(expected)});
}
/// mend: A block without elements has size 0.
[[gnu::cold]] inline std::string block_negative(std::string_view dim, std::int64_t got) {
  return sentence({"a block of dim ", quoted(dim), " was given the size ", number(got), "; it must not be negative"});
}
/// mend: Check the grid of processes and MB, NB, RSRC and CSRC of the descriptor.
[[gnu::cold]] inline std::string cyclic_numbers() {
  return "cleave: a block-cyclic distribution has processes and elements in a block in both directions, and the first "
         "block is on one of the processes";
}
/// mend: Make the tensor's grid from the communicator of the processes, or give their grid fewer rows or columns.
[[gnu::cold]] inline std::string cyclic_processes(std::int64_t rows, std::int64_t columns, std::int64_t ranks) {
  return sentence({"a block-cyclic distribution over ", number(rows), " x ", number(columns),
                   " processes needs as many ranks, but the communicator has ", number(ranks)});
}
/// mend: Use blocks that divide the matrix into as many for each process, or copy with `from_block_cyclic`.
[[gnu::cold]] inline std::string cyclic_whole(std::string_view direction, std::int64_t extent, std::int64_t block,
                                              std::int64_t processes) {
  return sentence({"a matrix with ", number(extent), " ", direction, " is not made of whole blocks of ", number(block),
                   ", as many for each of ", number(processes), " processes; only such an array can be wrapped"});
}
/// mend: The sizes of the mesh are those of the grid of processes, and device (i, j) has the blocks of process (i, j),
/// counted from the one with the first block. Make the grid with a list of ranks in that order, or copy with
/// `from_block_cyclic`.
[[gnu::cold]] inline std::string cyclic_place() {
  return "cleave: some rank is another process of the block-cyclic distribution than the one whose blocks its shard of "
         "the tensor has";
}
/// mend: Allocate what `block_cyclic::local_extents` says, or the extents of the block of this rank. The leading
/// dimension is at least the number of rows.
[[gnu::cold]] inline std::string array_misfit() {
  return "cleave: the local array of some rank does not fit the part that the rank has in the distribution";
}
/// mend: Give the global extent of every dim, in the written order. Dims of fixed extent need one too: `{1024, 512}`
/// for `mesh(batch / data, embed)`.
[[gnu::cold]] inline std::string extents_needed(std::int64_t expected, std::int64_t got) {
  return sentence({"the tensor has ", number(expected), " dims, but ", number(got), " extents were given"});
}
/// mend: Name each dim of the tensor once: `{batch = 1024, embed = 512}`.
[[gnu::cold]] inline std::string extent_given_times(std::string_view dim, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " needs one extent, but was given ", number(got)});
}
/// mend: Name dims of the tensor's layout. Sizes of axes belong to the grid.
[[gnu::cold]] inline std::string extent_of_no_dim(std::string_view dim) {
  return sentence({"an extent was given for ", quoted(dim), ", which is no dim of the tensor"});
}
/// thrown: grid_error
/// mend: Construct the tensor on the left with a grid and extents, `Field v(grid, {rows, cols})`, or with the
/// statement, `Field v = f(u);`, which takes both from the arguments.
[[gnu::cold]] inline std::string result_without_data(std::size_t result, std::size_t of) {
  if (of == 1)
    return "cleave: the result, to which the statement is assigned, has no grid: construct it with a "
           "grid or with the statement";
  return sentence({"result ", number(result), " of the call has no grid"});
}
/// thrown: grid_error
/// mend: Construct the argument with a grid and extents, and give it values, before you call the function.
[[gnu::cold]] inline std::string argument_without_data(std::size_t argument) {
  return sentence({"argument ", number(argument), " of the call has no grid"});
}
/// thrown: view_error
/// mend: Capture the View, which shares the elements of the tensor: `const auto v = x.view();` before the kernel, and
/// `v` in it.
[[gnu::cold]] inline std::string tensor_in_kernel() {
  return "cleave: a kernel captures a tensor; that is a copy, and what the kernel writes into it is lost: capture "
         "x.view()";
}
/// mend: A slice begins and ends within its dim. The gradient of a periodic or reflecting border needs dims that are at
/// least as long as the part that windows and shifts reach beyond them: use border::zero or longer dims.
[[gnu::cold]] inline std::string extent_too_small(std::string_view dim, std::int64_t least, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " has extent ", number(got), ", but the function needs at least ",
                   number(least), ", for a slice or for what a border mirrors"});
}
/// mend: Name a wider type, as in `iota<std::int64_t>(x, row)` and `count<std::int64_t>(x)`. argmax, argmin, top_k,
/// labels and start indices of 32 bits need dims of at most 2^31 - 1 indices: split a longer one.
[[gnu::cold]] inline std::string index_too_large(std::string_view dim, std::int64_t got, std::string_view type) {
  return sentence({"dim ", quoted(dim), " has extent ", number(got), ", but the function numbers its indices in ", type,
                   ", which cannot hold so many"});
}
/// mend: Positions begin with 0; or name the dim: `x.extent(batch)`.
[[gnu::cold]] inline std::string no_such_dim(std::int64_t rank, std::int64_t got) {
  return sentence({"the tensor has ", number(rank), " dims, and none at position ", number(got)});
}
/// mend: Extents are global and at least 0. Check for an overflow, or for a difference with the wrong sign.
[[gnu::cold]] inline std::string extent_negative(std::string_view dim, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " was given the extent ", number(got), "; it must be at least 0"});
}
/// mend: Give the extent that the type of the dim has, or declare the dim without an extent, `dim<"embed">`.
[[gnu::cold]] inline std::string extent_fixed(std::string_view dim, std::int64_t expected, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " is fixed to extent ", number(expected), ", but ", number(got), " was given"});
}
/// mend: Pass the extents of the whole tensor, the same on every rank. Do not pass the size of the local shard; Cleave
/// computes it.
[[gnu::cold]] inline std::string extents_disagree(std::string_view dim, std::int64_t least, std::int64_t most) {
  return sentence(
      {"the ranks do not agree on the extent of dim ", quoted(dim), ": from ", number(least), " to ", number(most)});
}
/// mend: A dim has one extent in all tensors of a call. If you mean two extents, declare two dims with two names. The
/// dim `entry row,col` is of a sparse matrix: give matrices of one function a name each, the last argument of `csr`.
[[gnu::cold]] inline std::string extents_differ(std::string_view dim, std::int64_t expected, std::int64_t got) {
  return sentence(
      {"dim ", quoted(dim), " has extent ", number(expected), " in one tensor and ", number(got), " in another"});
}
/// mend: Pad the extent to a multiple, or remove the promise from the type: `dim<"head">`. Without a promise, uneven
/// blocks are allowed.
[[gnu::cold]] inline std::string extent_not_divisible(std::string_view dim, std::int64_t parts, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " promises to divide evenly over ", number(parts),
                   " devices, but its extent is ", number(got)});
}
/// mend: Fix the extent in the type, as in `dim<"class", 10>`, or pass a tensor that has the dim. This is needed for
/// `one_hot` and for the parts of a `split`.
[[gnu::cold]] inline std::string extent_unknown(std::string_view dim) {
  return sentence({"the extent of dim ", quoted(dim), " follows from no argument or result; fix it in the dim's type"});
}
/// mend: Choose an extent that is a multiple of its parts: a number of microbatches that is a multiple of the stages, a
/// sequence that is a multiple of its blocks.
[[gnu::cold]] inline std::string extent_no_multiple(std::string_view whole, std::int64_t extent, std::string_view part,
                                                    std::int64_t by) {
  return sentence({"dim ", quoted(whole), " has extent ", number(extent), ", which is no multiple of the ", number(by),
                   " of dim ", quoted(part), ", into which it is split"});
}
/// mend: Allocate the View with `local_extents()` of a tensor of this type, or with the size of your block. Blocks have
/// ceil(extent / devices) elements; the last ones may be smaller or empty.
[[gnu::cold]] inline std::string view_extent(std::string_view dim, std::int64_t expected, std::int64_t got,
                                             std::int64_t rank) {
  return sentence({"along dim ", quoted(dim), " the shard of rank ", number(rank), " has extent ", number(expected),
                   ", but its View has ", number(got)});
}
/// mend: Allocate the View with the extents of the shard and twice the widths of the ghosts. A rank whose shard has no
/// elements may give an empty View.
[[gnu::cold]] inline std::string view_inner_extent(std::string_view dim, std::int64_t expected, std::int64_t got,
                                                   std::int64_t rank) {
  return sentence({"along dim ", quoted(dim), " the shard of rank ", number(rank), " has extent ", number(expected),
                   ", but its View without its ghosts has ", number(got)});
}
/// mend: Give `with_ghosts` how many ghosts there are on each side: 0 or more.
[[gnu::cold]] inline std::string view_ghosts(std::string_view dim, std::int64_t got, std::int64_t rank) {
  return sentence({"along dim ", quoted(dim), " the View of rank ", number(rank), " has ", number(got), " ghosts"});
}
/// mend: Wrap a View that has memory for each of its elements. A `Kokkos::LayoutStride` View with stride 0, or one
/// whose rows overlap, shows some elements several times.
[[gnu::cold]] inline std::string view_stride(std::string_view dim, std::int64_t least, std::int64_t got,
                                             std::int64_t rank) {
  return sentence({"along dim ", quoted(dim), " the View of rank ", number(rank), " has stride ", number(got),
                   ", but its elements are apart only from ", number(least), " on"});
}
/// mend: Wrap a View on every device or on none, if it is not contiguous or its elements are constants. A device
/// without elements wraps an empty View.
[[gnu::cold]] inline std::string view_on_some(std::int64_t view, std::int64_t none) {
  return sentence(
      {"the tensor wraps a strided or constant View on rank ", number(view), ", but none on rank ", number(none)});
}
/// mend: Wrap a View whose elements are not const, or assign to a tensor of its own.
[[gnu::cold]] inline std::string view_is_read_only() {
  return "cleave: the tensor wraps a View of constants, so nothing can be assigned to it";
}
/// mend: Use `strided_view()`, which fits every shard, or copy the View into a tensor of its own: `tensor(x)`.
[[gnu::cold]] inline std::string view_is_strided() {
  return "cleave: the tensor wraps a View that is not contiguous, so its shard has no LayoutRight View";
}
/// mend: Give a box within the extents of the tensor on each rank, with the index of its first element.
[[gnu::cold]] inline std::string box_outside(std::string_view dim, std::int64_t rank, std::int64_t begin,
                                             std::int64_t end, std::int64_t extent) {
  return sentence({"along dim ", quoted(dim), " the box of rank ", number(rank), " has the indices from ",
                   number(begin), " to below ", number(end), ", but the tensor has extent ", number(extent)});
}
/// mend: Give every element of the tensor on one rank. A rank without elements gives a View without elements.
[[gnu::cold]] inline std::string boxes_miss(std::int64_t expected, std::int64_t got) {
  return sentence({"the boxes of all ranks have ", number(got), " elements together, but the tensor has ",
                   number(expected), "; each must be in one box"});
}
/// mend: Give each element on one rank only. Boxes with ghosts are wrapped or copied without them.
[[gnu::cold]] inline std::string boxes_overlap() {
  return "cleave: some element of the tensor is in the boxes of two ranks";
}
/// mend: Construct the tensor with a grid and extents, and assign the statement to it.
[[gnu::cold]] inline std::string no_grid_to_be_made_on() {
  return "cleave: a tensor is made on the grid of the tensors in its statement, and this statement has none";
}
/// mend: Construct all tensors of one computation with one grid or copies of its handle. Two grids of the same mesh are
/// different grids.
[[gnu::cold]] inline std::string grids_differ() { return "cleave: the tensors of one expression are on two grids"; }
/// mend: Construct both grids from one communicator. For a mesh on some of its ranks, give the grid the whole
/// communicator and a part: `on_ranks{first, stride}`.
[[gnu::cold]] inline std::string grids_unrelated() {
  return "cleave: copy needs two grids of one communicator, or of two communicators with the same ranks in the same "
         "order";
}
/// mend: Make the same copy on all ranks of the bridge: the same types on both sides. A rank that has no tensor on a
/// side passes one without data, of the same type.
[[gnu::cold]] inline std::string bridge_types() {
  return "cleave: the ranks of a bridge do not all copy between tensors of the same two types";
}
/// mend: Each rank of a side passes its tensor of one grid. A rank of neither side passes two tensors without data.
[[gnu::cold]] inline std::string bridge_without(std::string_view side) {
  return sentence({"no rank of the bridge has the ", side, " of the copy"});
}
/// mend: Use more devices, or free memory before the copy.
[[gnu::cold]] inline std::string bridge_out_of_memory(std::int64_t rank) {
  return sentence({"rank ", number(rank), " of the bridge cannot allocate what it sends and receives"});
}
/// mend: All ranks that have the side pass the same tensor of one grid. Two groups of ranks that copy at the same time
/// need a bridge each.
[[gnu::cold]] inline std::string bridge_grids(std::string_view side) {
  return sentence({"the ranks of the bridge do not agree on the grid of the ", side, " or on its extents"});
}
/// mend: Construct the bridge from a communicator that has all devices of both grids, and pass one tensor for each
/// side.
[[gnu::cold]] inline std::string bridge_device(std::string_view side, std::int64_t device, std::int64_t ranks) {
  return sentence({"device ", number(device), " of the grid of the ", side, " is on ", number(ranks),
                   " ranks of the bridge, and must be on one"});
}
/// mend: Ask `tensor.get_grid().active()` before you use the shard, or use tensors of a grid that has this rank as a
/// device.
[[gnu::cold]] inline std::string grid_elsewhere() {
  return "cleave: this rank is not a device of the tensor's grid, so it has no shard";
}
/// mend: Look for extents that were multiplied or converted wrongly. Sizes have 64 bits.
[[gnu::cold]] inline std::string too_many_bytes() { return "cleave: the tensor has more bytes than 64 bits can count"; }

}}} // namespace cleave::v0::wording
