// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about tensors from and to other distributions and communicators.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Give the elements of the whole tensor, row-major, on the rank that they come from.
inline constexpr text<2> elements_given{"the tensor has {expected} elements, but {got} were given"};
/// fix: Give a list of sizes for each dim, in the order of the tensor's dims; an empty one stands for its own blocks.
inline constexpr text<2> block_lists{"the tensor has {expected} dims, but block sizes were given for {got}"};
/// fix: Give a size for each block: as many as devices over which the layout shards the dim.
inline constexpr text<3> block_count{"dim '{dim}' has {expected} blocks, but {got} sizes were given"};
/// fix: Give sizes that add up to the extent of the dim.
inline constexpr text<3> block_sum{"the block sizes of dim '{dim}' add up to {got}, but its extent is {expected}",
                                   {"dim", "expected", "got"}};
/// fix: A block without elements has size 0.
inline constexpr text<2> block_negative{"a block of dim '{dim}' was given the size {got}; it must not be negative"};
/// fix: Check the grid of processes and MB, NB, RSRC and CSRC of the descriptor.
inline constexpr text<0> cyclic_numbers{
    "a block-cyclic distribution has processes and elements in a block in both directions, and the first block "
    "is on one of the processes"};
/// fix: Make the tensor's grid from the communicator of the processes, or give their grid fewer rows or columns.
inline constexpr text<3> cyclic_processes{
    "a block-cyclic distribution over {rows} x {columns} processes needs as many ranks, but the communicator "
    "has {ranks}"};
/// fix: Use blocks that divide the matrix into as many for each process, or copy with `from_block_cyclic`.
inline constexpr text<4> cyclic_whole{
    "a matrix with {extent} {direction} is not made of whole blocks of {block}, as many for each of "
    "{processes} processes; only such an array can be wrapped",
    {"direction", "extent", "block", "processes"}};
/// fix: The sizes of the mesh are those of the grid of processes, and device (i, j) has the blocks of process (i, j),
/// counted from the one with the first block. Make the grid with a list of ranks in that order, or copy with
/// `from_block_cyclic`.
inline constexpr text<0> cyclic_place{
    "some rank is another process of the block-cyclic distribution than the one whose blocks its shard of the "
    "tensor has"};
/// fix: Allocate `block_cyclic::local_extents`, or the extents of the block of this rank. The leading
/// dimension is at least the number of rows.
inline constexpr text<0> array_misfit{
    "the local array of some rank does not fit the part that the rank has in the distribution"};
/// fix: Copy within one communicator, or `rename` the dim to one with equal blocks before.
inline constexpr text<1> bridge_blocks{
    "dim '{dim}' has blocks of given sizes, which a copy over a bridge does not know"};
/// fix: Give a box within the extents of the tensor on each rank, with the index of its first element.
inline constexpr text<5> box_outside{
    "along dim '{dim}' the box of rank {rank} has the indices from {begin} to below {end}, but the tensor has "
    "extent {extent}"};
/// fix: Give every element of the tensor on one rank. A rank without elements gives a View without elements.
inline constexpr text<2> boxes_miss{
    "the boxes of all ranks have {got} elements together, but the tensor has {expected}; each must be in one "
    "box",
    {"expected", "got"}};
/// fix: Give each element on one rank only. Boxes with ghosts are wrapped or copied without them.
inline constexpr text<0> boxes_overlap{"some element of the tensor is in the boxes of two ranks"};
/// fix: Construct both grids from one communicator. For a mesh on some of its ranks, give the grid the whole
/// communicator and a part: `on_ranks{first, stride}`.
inline constexpr text<0> grids_unrelated{
    "copy needs two grids of one communicator, or of two communicators with the same ranks in the same order"};
/// fix: Make the same copy on all ranks of the bridge: the same types on both sides. A rank that has no tensor on a
/// side passes one without data, of the same type.
inline constexpr text<0> bridge_types{"the ranks of a bridge do not all copy between tensors of the same two types"};
/// fix: Each rank of a side passes its tensor of one grid. A rank of neither side passes two tensors without data.
inline constexpr text<1> bridge_without{"no rank of the bridge has the {side} of the copy"};
/// fix: Use more devices, or free memory before the copy.
inline constexpr text<1> bridge_out_of_memory{"rank {rank} of the bridge cannot allocate what it sends and receives"};
/// fix: All ranks that have the side pass the same tensor of one grid. Two groups of ranks that copy at the same time
/// need a bridge each.
inline constexpr text<1> bridge_grids{
    "the ranks of the bridge do not agree on the grid of the {side} or on its extents"};
/// fix: Construct the bridge from a communicator that has all devices of both grids, and pass one tensor for each
/// side.
inline constexpr text<3> bridge_device{
    "device {device} of the grid of the {side} is on {ranks} ranks of the bridge, and must be on one",
    {"side", "device", "ranks"}};

}}} // namespace cleave::v0::wording
