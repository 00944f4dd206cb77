// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

// The sentences of exceptions about grids and their communication.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: That rank's own message names the variable. Correct it there, or unset it.
inline constexpr text<0> environment_of_another_rank{
    "a variable of the environment that starts with CLEAVE_ means nothing on another rank"};
/// fix: Give one size for each axis, in the order of the mesh. Axes of fixed size need one too:
/// `grid(mesh, comm, {2, 4})` for `mesh{data, model}`.
inline constexpr text<2> mesh_needs_sizes{"the mesh has {expected} axes, but {got} sizes were given"};
/// fix: An axis that is not used in this run has size 1. Check the code that computes the sizes for a division that
/// rounds to 0.
inline constexpr text<2> mesh_size_not_positive{"mesh axis '{axis}' was given the size {got}; it must be at least 1"};
/// fix: Give the size that the type has, or declare the axis without a size, `axis<"data">`.
inline constexpr text<3> mesh_size_fixed{"mesh axis '{axis}' is fixed to size {expected}, but {got} was given"};
/// fix: Start as many MPI processes as the sizes multiply to, or compute one size from `MPI_Comm_size` and the others.
/// To use fewer devices, split the communicator first, or give the grid a part of the ranks.
inline constexpr text<2> mesh_needs_ranks{
    "the sizes of the mesh multiply to {expected} devices, but the communicator has {got} ranks"};
/// fix: Check the code that computes the sizes for an overflow.
inline constexpr text<1> mesh_uncountable{
    "the sizes of the mesh multiply to more than 2^31 - 1 devices, but the communicator has {ranks} ranks"};
/// fix: Name each axis of the mesh once: `{data = 4, model = 2}`. Axes of fixed size may be omitted.
inline constexpr text<2> axis_sizes_given{"mesh axis '{axis}' needs one size, but was given {got}"};
/// fix: Name axes of the mesh. Extents of dims belong to the tensors.
inline constexpr text<1> size_of_no_axis{"a size was given for '{name}', which is no axis of the mesh"};
/// fix: Ask the grid for an axis of its mesh.
inline constexpr text<1> axis_not_in_mesh{"the mesh of the grid has no axis '{axis}'"};
/// fix: Every rank must pass the same sizes. Compute them from the size of the communicator, or broadcast them from
/// one rank.
inline constexpr text<3> mesh_sizes_disagree{
    "the ranks do not agree on the size of mesh axis '{axis}': from {least} to {most}"};
/// fix: Every rank must pass the same first rank and stride. Compute them in the same way everywhere, or broadcast
/// them.
inline constexpr text<0> mesh_parts_disagree{"the ranks do not agree on the ranks that the mesh uses"};
/// fix: Use fewer or smaller axes, a lower first rank, or a smaller stride. The last device is rank first + stride *
/// (devices - 1).
[[gnu::cold]] inline std::string mesh_part_outside(std::int64_t first, std::int64_t stride, std::int64_t last,
                                                   std::int64_t ranks) {
  // A grid of one device, such as that of `gather_to`.
  if (first == last)
    return sentence(
        {"rank ", number(first), " was named, but the communicator has the ranks 0 to ", number(ranks - 1)});
  return sentence({"the mesh uses the ranks from ", number(first), " to ", number(last), " with stride ",
                   number(stride), ", but the communicator has the ranks 0 to ", number(ranks - 1)});
}
/// fix: Give one rank for each device: as many as the sizes of the mesh multiply to.
inline constexpr text<2> mesh_list_length{
    "the list of ranks has {ranks} entries, but the sizes of the mesh multiply to {devices} devices"};
/// fix: Name ranks of the communicator, each once.
[[gnu::cold]] inline std::string mesh_list_rank(std::size_t device, std::int64_t rank, std::int64_t ranks) {
  return sentence({"device ", number(device), " is rank ", number(rank),
                   " by the list of ranks, which must name each rank once; the communicator has the ranks 0 to ",
                   number(ranks - 1)});
}
/// fix: Every rank must pass the same list of sizes, one for each axis.
inline constexpr text<0> mesh_counts_disagree{"the ranks do not agree on how many sizes the mesh was given"};
/// fix: Give every rank all sizes, those of the other ranks too, as `MPI_Allgather` of the own sizes does.
inline constexpr text<1> blocks_disagree{"the ranks do not agree on the sizes of the blocks '{blocks}'"};
/// fix: Give one size for each block, in their order.
inline constexpr text<1> blocks_without_sizes{"no sizes were given for the blocks '{blocks}'"};
/// fix: A block that has no elements has the size 0. All sizes together are at most 2^46.
inline constexpr text<3> blocks_negative{"block {block} of the blocks '{blocks}' was given the size {got}",
                                         {"blocks", "block", "got"}};
/// fix: Tensors have the first sizes. For other ones make another grid, and `copy` the tensors to it.
inline constexpr text<1> blocks_changed{"the grid has other sizes for the blocks '{blocks}' already"};
/// fix: The words after the colon come from MPI. Ranks may be out of step, so end the program, or construct a new grid
/// from a communicator that works.
inline constexpr text<2> mpi_failed{"{call} failed: {why}"};
/// fix: Look for the first mpi_error; it names the failed call. Then construct a new grid and new tensors on it.
inline constexpr text<0> grid_broken{"a call of MPI failed on this grid earlier; it cannot be used any more"};
/// fix: Construct the tensor with a grid and extents before you use it: `Matrix a(grid, {1024, 512})`. A
/// default-constructed tensor becomes usable only when another tensor of the same type is assigned to it.
inline constexpr text<0> grid_missing{"the tensor has no grid"};
/// fix: A rank that is not to be a device takes part with the whole communicator. Give the grid a part of the ranks:
/// `grid(mesh, comm, sizes, on_ranks{first, stride})`.
inline constexpr text<0> communicator_null{"the communicator of the grid is MPI_COMM_NULL"};
/// fix: Merge the two groups with `MPI_Intercomm_merge` first.
inline constexpr text<0> communicator_inter{
    "the communicator of the grid is an intercommunicator; a grid needs an intracommunicator"};
/// fix: Use more devices, shard more dims, or use smaller extents. `plan.workspace(sizes)` is the memory of a plan
/// beside its tensors.
inline constexpr text<3> rank_out_of_memory{"rank {rank} cannot allocate {bytes} bytes for {what}",
                                            {"bytes", "what", "rank"}};
/// fix: Use more devices, or free memory before the call. A tensor that one rank cannot hold comes to it in slabs
/// (`gather_slabs`).
inline constexpr text<1> rank_without_memory{"rank {rank} cannot allocate what it sends, receives or collects"};
/// fix: All ranks of a grid must make the same calls in the same order. Look for a call that depends on the rank, and
/// for a rank that runs another binary.
inline constexpr text<4> calls_differ{
    "the ranks make different calls: rank {a} makes {call_a}, but rank {b} makes {call_b}"};
/// fix: Look where the missing rank is. It may have thrown, ended, or skipped this call. If it is only slow, raise
/// the limit: `grid.check({.calls = true, .time_limit = 600})`, or CLEAVE_TIME_LIMIT in the environment.
inline constexpr text<3> rank_missing{"rank {rank} did not arrive within {seconds} s at {call}"};
/// fix: Look where that rank is. It may have left the call by an exception that it caught, or run another binary.
inline constexpr text<2> rank_elsewhere{
    "rank {rank} is at another place of the program than the others, which are at {call}"};
/// fix: Give seconds, such as `grid.check({.calls = true, .time_limit = 60})`. To wait without end, leave checks off.
inline constexpr text<0> time_limit_not_above_0{"the time limit of checks is not a number above 0 on some rank"};
/// fix: Construct the grid on all ranks of the communicator, in the same order as others. If some ranks are only slow,
/// raise the limit: CLEAVE_TIME_LIMIT in the environment.
inline constexpr text<1> grid_not_everywhere{"not all ranks of the communicator construct the grid within {seconds} s"};
/// fix: Extents are global and at least 0. Check for an overflow, or for a difference with the wrong sign.
inline constexpr text<2> extent_negative{"dim '{dim}' was given the extent {got}; it must be at least 0"};
/// fix: Give the extent that the type of the dim has, or declare the dim without an extent, `dim<"embed">`.
inline constexpr text<3> extent_fixed{"dim '{dim}' is fixed to extent {expected}, but {got} was given"};
/// fix: Pad the extent to a multiple, or remove the promise from the type: `dim<"head">`. Without a promise, uneven
/// blocks are allowed.
inline constexpr text<3> extent_not_divisible{
    "dim '{dim}' promises to divide evenly over {parts} devices, but its extent is {got}"};
/// fix: Call `grid.set_blocks(dim, sizes)` before the first tensor with the dim.
inline constexpr text<2> blocks_missing{"dim '{dim}' has the blocks '{blocks}', for which the grid was given no sizes",
                                        {"dim", "blocks"}};
/// fix: Sizes of blocks add up to the extent of the dim. A dim with another extent needs another name of blocks.
inline constexpr text<4> blocks_sum{
    "dim '{dim}' has extent {extent}, but the sizes of its blocks '{blocks}' add up to {sum}",
    {"dim", "extent", "blocks", "sum"}};
/// fix: Give as many sizes as there are devices along the dim, or a multiple, or a divisor of that number.
inline constexpr text<4> blocks_parts{
    "dim '{dim}' is sharded over {parts} devices, but its blocks '{blocks}' have {sizes} sizes",
    {"dim", "parts", "blocks", "sizes"}};

}}} // namespace cleave::v0::wording
