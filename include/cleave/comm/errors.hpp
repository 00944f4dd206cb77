// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about grids and their communication.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: That rank's own message names the variable. Correct it there, or unset it.
[[gnu::cold]] inline std::string environment_of_another_rank() {
  return sentence({"a variable of the environment that starts with CLEAVE_ means nothing on another rank"});
}
/// mend: Give one size for each axis, in the order of the mesh. Axes of fixed size need one too:
/// `grid(mesh, comm, {2, 4})` for `mesh{data, model}`.
[[gnu::cold]] inline std::string mesh_needs_sizes(std::int64_t expected, std::int64_t got) {
  return sentence({"the mesh has ", number(expected), " axes, but ", number(got), " sizes were given"});
}
/// mend: An axis that is not used in this run has size 1. Check the code that computes the sizes for a division that
/// rounds to 0.
[[gnu::cold]] inline std::string mesh_size_not_positive(std::string_view axis, std::int64_t got) {
  return sentence({"mesh axis ", quoted(axis), " was given the size ", number(got), "; it must be at least 1"});
}
/// mend: Give the size that the type has, or declare the axis without a size, `axis<"data">`.
[[gnu::cold]] inline std::string mesh_size_fixed(std::string_view axis, std::int64_t expected, std::int64_t got) {
  return sentence(
      {"mesh axis ", quoted(axis), " is fixed to size ", number(expected), ", but ", number(got), " was given"});
}
/// mend: Start as many MPI processes as the sizes multiply to, or compute one size from `MPI_Comm_size` and the others.
/// To use fewer devices, split the communicator first, or give the grid a part of the ranks.
[[gnu::cold]] inline std::string mesh_needs_ranks(std::int64_t expected, std::int64_t got) {
  return sentence({"the sizes of the mesh multiply to ", number(expected), " devices, but the communicator has ",
                   number(got), " ranks"});
}
/// mend: Check the code that computes the sizes for an overflow.
[[gnu::cold]] inline std::string mesh_uncountable(std::int64_t ranks) {
  return sentence({"the sizes of the mesh multiply to more than 2^31 - 1 devices, but the communicator has ",
                   number(ranks), " ranks"});
}
/// mend: Name each axis of the mesh once: `{data = 4, model = 2}`. Axes of fixed size may be omitted.
[[gnu::cold]] inline std::string axis_sizes_given(std::string_view axis, std::int64_t got) {
  return sentence({"mesh axis ", quoted(axis), " needs one size, but was given ", number(got)});
}
/// mend: Name axes of the mesh. Extents of dims belong to the tensors.
[[gnu::cold]] inline std::string size_of_no_axis(std::string_view name) {
  return sentence({"a size was given for ", quoted(name), ", which is no axis of the mesh"});
}
/// mend: Ask the grid for an axis of its mesh.
[[gnu::cold]] inline std::string axis_not_in_mesh(std::string_view axis) {
  return sentence({"the mesh of the grid has no axis ", quoted(axis)});
}
/// mend: Every rank must pass the same sizes. Compute them from the size of the communicator, or broadcast them from
/// one rank.
[[gnu::cold]] inline std::string mesh_sizes_disagree(std::string_view axis, std::int64_t least, std::int64_t most) {
  return sentence({"the ranks do not agree on the size of mesh axis ", quoted(axis), ": from ", number(least), " to ",
                   number(most)});
}
/// mend: Every rank must pass the same first rank and stride. Compute them in the same way everywhere, or broadcast
/// them.
[[gnu::cold]] inline std::string mesh_parts_disagree() {
  return "cleave: the ranks do not agree on the ranks that the mesh uses";
}
/// mend: Use fewer or smaller axes, a lower first rank, or a smaller stride. The last device is rank first + stride *
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
/// mend: Give one rank for each device: as many as the sizes of the mesh multiply to.
[[gnu::cold]] inline std::string mesh_list_length(std::int64_t ranks, std::int64_t devices) {
  return sentence({"the list of ranks has ", number(ranks), " entries, but the sizes of the mesh multiply to ",
                   number(devices), " devices"});
}
/// mend: Name ranks of the communicator, each once.
[[gnu::cold]] inline std::string mesh_list_rank(std::size_t device, std::int64_t rank, std::int64_t ranks) {
  return sentence({"device ", number(device), " is rank ", number(rank),
                   " by the list of ranks, which must name each rank once; the communicator has the ranks 0 to ",
                   number(ranks - 1)});
}
/// mend: Every rank must pass the same list of sizes, one for each axis.
[[gnu::cold]] inline std::string mesh_counts_disagree() {
  return "cleave: the ranks do not agree on how many sizes the mesh was given";
}
/// mend: The words after the colon come from MPI. Ranks may be out of step, so end the program, or construct a new grid
/// from a communicator that works.
[[gnu::cold]] inline std::string mpi_failed(std::string_view call, std::string_view why) {
  return sentence({call, " failed: ", why});
}
/// mend: Look for the first mpi_error; it says what failed. Then construct a new grid and new tensors on it.
[[gnu::cold]] inline std::string grid_broken() {
  return "cleave: a call of MPI failed on this grid earlier; it cannot be used any more";
}
/// mend: Construct the tensor with a grid and extents before you use it: `Matrix a(grid, {1024, 512})`. A
/// default-constructed tensor becomes usable only when another tensor of the same type is assigned to it.
[[gnu::cold]] inline std::string grid_missing() { return "cleave: the tensor has no grid"; }
/// mend: A rank that is not to be a device takes part with the whole communicator. Give the grid a part of the ranks:
/// `grid(mesh, comm, sizes, on_ranks{first, stride})`.
[[gnu::cold]] inline std::string communicator_null() { return "cleave: the communicator of the grid is MPI_COMM_NULL"; }
/// mend: Merge the two groups with `MPI_Intercomm_merge` first.
[[gnu::cold]] inline std::string communicator_inter() {
  return "cleave: the communicator of the grid is an intercommunicator; a grid needs an intracommunicator";
}
/// mend: Use more devices, shard more dims, or use smaller extents. `plan.workspace(sizes)` is what a plan needs beside
/// its tensors.
[[gnu::cold]] inline std::string rank_out_of_memory(std::int64_t bytes, std::string_view what, std::int64_t rank) {
  return sentence({"rank ", number(rank), " cannot allocate ", number(bytes), " bytes for ", what});
}
/// mend: Use more devices, or free memory before the call. A tensor that one rank cannot hold comes to it in slabs
/// (`gather_slabs`).
[[gnu::cold]] inline std::string rank_without_memory(std::int64_t rank) {
  return sentence({"rank ", number(rank), " cannot allocate what it sends, receives or collects"});
}
/// mend: All ranks of a grid must make the same calls in the same order. Look for a call that depends on the rank, and
/// for a rank that runs another binary.
[[gnu::cold]] inline std::string calls_differ(std::int64_t a, std::string_view call_a, std::int64_t b,
                                              std::string_view call_b) {
  return sentence({"the ranks make different calls: rank ", number(a), " makes ", call_a, ", but rank ", number(b),
                   " makes ", call_b});
}
/// mend: Look at what the missing rank does. It may have thrown, ended, or skipped this call. If it is only slow, raise
/// the limit: `grid.check({.calls = true, .time_limit = 600})`, or CLEAVE_TIME_LIMIT in the environment.
[[gnu::cold]] inline std::string rank_missing(std::int64_t rank, std::int64_t seconds, std::string_view call) {
  return sentence({"rank ", number(rank), " did not arrive within ", number(seconds), " s at ", call});
}
/// mend: Look at what that rank does. It may have left the call by an exception that it caught, or run another binary.
[[gnu::cold]] inline std::string rank_elsewhere(std::int64_t rank, std::string_view call) {
  return sentence({"rank ", number(rank), " is at another place of the program than the others, which are at ", call});
}
/// mend: Give seconds, such as `grid.check({.calls = true, .time_limit = 60})`. To wait without end, leave checks off.
[[gnu::cold]] inline std::string time_limit_not_above_0() {
  return "cleave: the time limit of checks is not a number above 0 on some rank";
}
/// mend: Construct the grid on all ranks of the communicator, in the same order as others. If some ranks are only slow,
/// raise the limit: CLEAVE_TIME_LIMIT in the environment.
[[gnu::cold]] inline std::string grid_not_everywhere(std::int64_t seconds) {
  return sentence({"not all ranks of the communicator construct the grid within ", number(seconds), " s"});
}

}}} // namespace cleave::v0::wording
