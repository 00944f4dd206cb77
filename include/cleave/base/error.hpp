// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cleave {

/// What every exception of Cleave derives from. Faults of a program are found when it compiles (base/rejected.hpp);
/// these are the ones that only the run can show. All their sentences are in this file.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The sizes of the mesh do not fit the communicator, the mesh type, or each other.
struct mesh_error : error {
  using error::error;
};
/// An extent of a tensor is not what it must be.
struct shape_error : error {
  using error::error;
};
/// A user's View cannot be the shard of the tensor that was to wrap it.
struct view_error : error {
  using error::error;
};
/// A call of MPI failed. The grid in which it happened cannot be used any more.
struct mpi_error : error {
  mpi_error(const std::string& what, int mpi_code) : error(what), code(mpi_code) {}
  int code;
};
/// A file cannot be read or written, or does not hold what was asked for.
struct io_error : error {
  using error::error;
};
/// A tensor was used that was never given a grid, or tensors of two grids met.
struct grid_error : error {
  using error::error;
};

namespace wording {

inline std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }
inline std::string number(std::int64_t n) { return std::to_string(n); }
inline std::string prefix() { return "cleave: "; }

inline std::string mesh_needs_sizes(std::int64_t expected, std::int64_t got) {
  return prefix() + "the mesh has " + number(expected) + " axes, but " + number(got) + " sizes were given";
}
inline std::string mesh_size_not_positive(std::string_view axis, std::int64_t got) {
  return prefix() + "mesh axis " + quoted(axis) + " was given the size " + number(got) + "; it must be at least 1";
}
inline std::string mesh_size_fixed(std::string_view axis, std::int64_t expected, std::int64_t got) {
  return prefix() + "mesh axis " + quoted(axis) + " is fixed to size " + number(expected) + ", but " + number(got) +
         " was given";
}
inline std::string mesh_needs_ranks(std::int64_t expected, std::int64_t got) {
  return prefix() + "the sizes of the mesh multiply to " + number(expected) + " devices, but the communicator has " +
         number(got) + " ranks";
}
inline std::string mesh_sizes_disagree(std::string_view axis, std::int64_t least, std::int64_t most) {
  return prefix() + "the ranks do not agree on the size of mesh axis " + quoted(axis) + ": from " + number(least) +
         " to " + number(most);
}
inline std::string mesh_counts_disagree() {
  return "cleave: the ranks do not agree on how many sizes the mesh was given";
}

inline std::string extents_needed(std::int64_t expected, std::int64_t got) {
  return prefix() + "the tensor has " + number(expected) + " dims, but " + number(got) + " extents were given";
}
inline std::string extent_negative(std::string_view dim, std::int64_t got) {
  return prefix() + "dim " + quoted(dim) + " was given the extent " + number(got);
}
inline std::string extent_fixed(std::string_view dim, std::int64_t expected, std::int64_t got) {
  return prefix() + "dim " + quoted(dim) + " is fixed to extent " + number(expected) + ", but " + number(got) +
         " was given";
}
inline std::string extents_disagree(std::string_view dim, std::int64_t least, std::int64_t most) {
  return prefix() + "the ranks do not agree on the extent of dim " + quoted(dim) + ": from " + number(least) + " to " +
         number(most);
}
inline std::string extents_differ(std::string_view dim, std::int64_t expected, std::int64_t got) {
  return prefix() + "dim " + quoted(dim) + " has extent " + number(expected) + " in one tensor and " + number(got) +
         " in another";
}

inline std::string extent_not_divisible(std::string_view dim, std::int64_t parts, std::int64_t got) {
  return prefix() + "dim " + quoted(dim) + " promises to divide evenly over " + number(parts) + " devices, but its extent is " + number(got);
}
inline std::string extent_unknown(std::string_view dim) {
  return prefix() + "the extent of dim " + quoted(dim) + " follows from no argument or result; fix it in the dim's type";
}
inline std::string view_rank(std::int64_t expected, std::int64_t got) {
  return prefix() + "the shard has " + number(expected) + " dims, but the View has rank " + number(got);
}
inline std::string view_extent(std::string_view dim, std::int64_t expected, std::int64_t got, std::int64_t rank) {
  return prefix() + "along dim " + quoted(dim) + " the shard of rank " + number(rank) + " has extent " +
         number(expected) + ", but its View has " + number(got);
}
inline std::string view_stride(std::string_view dim, std::int64_t expected, std::int64_t got, std::int64_t rank) {
  return prefix() + "along dim " + quoted(dim) + " the View of rank " + number(rank) + " has stride " + number(got) +
         " where a contiguous LayoutRight View has " + number(expected);
}
/// mend: Pass a View that was allocated as one block, or the `view<...>()` of a shard, not a subview with gaps; copy it into one first.
inline std::string view_not_contiguous() { return "cleave: a collective on shards was given a View that is not contiguous"; }
/// mend: Ask for the View with the element type of the operand or result: `in[0].view<const float**>()` for a tensor of float with two dims.
inline std::string shard_element(std::string_view expected, std::string_view got) {
  return prefix() + "the shard has elements of type " + std::string(expected) + ", but was asked for as " + std::string(got);
}
/// mend: The whole has as many elements as all parts together, and every device has a part of the same length; pad the last one where blocks are uneven.
inline std::string parts_do_not_fit(std::int64_t expected, std::int64_t got) {
  return prefix() + "a collective on shards needs a View of " + number(expected) + " elements, but was given one of " + number(got);
}
/// mend: Call the collective several times on parts of the View, or use an MPI of version 4.
inline std::string too_many_for_one_call(std::int64_t most, std::int64_t got) {
  return prefix() + "a collective on shards moves at most " + number(most) + " elements with this MPI, but was given " + number(got);
}
inline std::string mpi_failed(std::string_view call, std::string_view why) {
  return prefix() + std::string(call) + " failed: " + std::string(why);
}
inline std::string grid_broken() { return "cleave: a call of MPI failed on this grid earlier; it cannot be used any more"; }
inline std::string grid_missing() { return "cleave: the tensor was never given a grid"; }
inline std::string grid_of_another_mesh() { return "cleave: the grid was made for another mesh than the tensor's"; }
inline std::string grids_differ() { return "cleave: the tensors of one expression live on two grids"; }
inline std::string plan_inconsistent(std::string_view op, std::string_view dim, std::int64_t expected, std::int64_t got) {
  return prefix() + "the plan is wrong, please report it: in " + std::string(op) + " dim " + quoted(dim) + " has extent " +
         number(expected) + " in one operand and " + number(got) + " in another";
}
inline std::string element_not_supported(std::string_view element, std::string_view where) {
  return prefix() + "element type " + std::string(element) + " is not supported in " + std::string(where);
}

} // namespace wording

} // namespace cleave
