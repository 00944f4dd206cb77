// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/underlying.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cleave::inline v0 {

/// The base of all exceptions of Cleave. Faults of a program are found at compile time (base/rejected.hpp); exceptions
/// are faults that are visible only at run time. All their sentences are in this file, each with its remedy:
/// tests/fail/catalogue.py makes docs/errors.md from both.
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
/// A View of the user does not fit the shard that it should become.
struct view_error : error {
  using error::error;
};
/// A call of MPI failed. The grid in which it happened cannot be used any more.
struct mpi_error : error {
  /// Made with the error code that MPI returned.
  mpi_error(const std::string& what, int mpi_code) : error(what), code(mpi_code) {}
  int code;
};
/// FFTW or cuFFT refused a transform.
struct transform_error : error {
  using error::error;
};
/// A tensor was used that has no grid, or on a rank that is not a device of its grid; or tensors of two grids met.
struct grid_error : error {
  using error::error;
};

/// `evaluate` or `simulate` cannot run a program: its arguments do not fit, or it computes with what doubles cannot
/// hold.
struct evaluation_error : error {
  using error::error;
};

/// MPI or Kokkos is not initialised yet, or has been finalised.
struct environment_error : error {
  using error::error;
};
/// There is not enough memory for a tensor or for the workspace of a plan.
struct memory_error : error {
  using error::error;
};
/// Two results of one call share memory.
struct overlap_error : error {
  using error::error;
};
/// A file cannot be read or written, or a line of it is not what it must be.
struct file_error : error {
  using error::error;
};
/// Checked mode found that the ranks do not run the same program on the same replicated data.
struct agreement_error : error {
  using error::error;
};
/// Checked mode waited for a rank until the time limit. The rank makes another call, or has ended.
struct absent_error : agreement_error {
  using agreement_error::agreement_error;
};
/// Checked mode found the operation that made the first NaN.
struct nan_error : error {
  using error::error;
};

/// What can be wrong with a line of a Matrix Market file.
enum class market_fault : std::uint8_t { banner, kind, sizes, entry, outside, upper, missing, surplus };

/// Throws. An exception is five calls at the place that throws it, this is one.
template <class Error>
[[noreturn, gnu::noinline, gnu::cold]] void raise(const std::string& sentence) {
  throw Error(sentence);
}

namespace wording {

/// A part of a sentence: words, a name in quotes, or a number.
struct part {
  enum class how : std::uint8_t { words, quoted, number };

  part() = default;
  part(std::string_view w, how h = how::words) : words(w), is(h) {}
  part(const char* w) : part(std::string_view(w)) {}
  part(const std::string& w) : part(std::string_view(w)) {}
  explicit part(std::int64_t n) : value(n), is(how::number) {}

  std::string_view words{};
  std::int64_t value = 0;
  how is = how::words;
};

inline part quoted(std::string_view name) { return {name, part::how::quoted}; }
inline part number(std::integral auto n) { return part(static_cast<std::int64_t>(n)); }

/// The sentence of its parts. Put together in one place, so that one more sentence costs the compiler little.
[[gnu::cold]] inline std::string sentence(std::initializer_list<part> parts) {
  std::string all("cleave: ");
  for (const part& p : parts) {
    if (p.is == part::how::number) {
      all.append(std::to_string(p.value));
    } else {
      const std::string_view quote = p.is == part::how::quoted ? "'" : "";
      all.append(quote).append(p.words).append(quote);
    }
  }
  return all;
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
  return sentence({"the mesh uses the ranks from ", number(first), " to ", number(last), " with stride ",
                   number(stride), ", but the communicator has the ranks 0 to ", number(ranks - 1)});
}
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

/// mend: Give the global extent of every dim, in the written order. Dims of fixed extent need one too: `{1024, 512}`
/// for `mesh(batch / data, embed)`.
[[gnu::cold]] inline std::string extents_needed(std::int64_t expected, std::int64_t got) {
  return sentence({"the tensor has ", number(expected), " dims, but ", number(got), " extents were given"});
}
/// mend: The gradient of a periodic or reflecting border needs dims that are at least as long as the part that windows
/// and shifts reach beyond them. Use border::zero or longer dims.
[[gnu::cold]] inline std::string extent_too_small(std::string_view dim, std::int64_t least, std::int64_t got) {
  return sentence({"dim ", quoted(dim), " has extent ", number(got), ", but a gradient at its border needs at least ",
                   number(least)});
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
/// mend: A dim has one extent in all tensors of a call. If you mean two extents, declare two dims with two names.
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
/// mend: Indices are int32. Sort the elements themselves, or split the dim into two and shard only one of them.
[[gnu::cold]] inline std::string too_long_to_index(std::int64_t got) {
  return sentence({"indices along a dim are int32, but the dim has extent ", number(got)});
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
/// mend: Add the dim to the sizes: `{heads = 16}`. Dims of fixed extent need no size.
[[gnu::cold]] inline std::string size_missing(std::string_view dim) {
  return sentence({"no size was given for dim ", quoted(dim)});
}
/// mend: Choose a number of stages that divides the number of layers. The axis may have any size; devices without a
/// stage are idle.
[[gnu::cold]] inline std::string stages_unequal(std::int64_t layers, std::int64_t stages) {
  return sentence({number(layers), " layers cannot be divided into ", number(stages), " stages of equal length"});
}
/// mend: Wrap a View with one dimension for each dim of the tensor, in the written order.
[[gnu::cold]] inline std::string view_rank(std::int64_t expected, std::int64_t got) {
  return sentence({"the shard has ", number(expected), " dims, but the View has rank ", number(got)});
}
/// mend: Allocate the View with `local_extents()` of a tensor of this type, or with the size of your block. Blocks have
/// ceil(extent / devices) elements; the last ones may be smaller or empty.
[[gnu::cold]] inline std::string view_extent(std::string_view dim, std::int64_t expected, std::int64_t got,
                                             std::int64_t rank) {
  return sentence({"along dim ", quoted(dim), " the shard of rank ", number(rank), " has extent ", number(expected),
                   ", but its View has ", number(got)});
}
/// mend: Wrap a View that has memory for each of its elements. A `Kokkos::LayoutStride` View with stride 0, or one
/// whose rows overlap, shows some elements several times.
[[gnu::cold]] inline std::string view_stride(std::string_view dim, std::int64_t least, std::int64_t got,
                                             std::int64_t rank) {
  return sentence({"along dim ", quoted(dim), " the View of rank ", number(rank), " has stride ", number(got),
                   ", but its elements are apart only from ", number(least), " on"});
}
/// mend: Wrap a View whose elements are not const, or assign to a tensor of its own.
[[gnu::cold]] inline std::string view_is_read_only() {
  return "cleave: the tensor wraps a View of constants, so nothing can be assigned to it";
}
/// mend: Use `strided_view()`, which fits every shard, or copy the View into a tensor of its own: `tensor(x)`.
[[gnu::cold]] inline std::string view_is_strided() {
  return "cleave: the tensor wraps a View that is not contiguous, so its shard has no LayoutRight View";
}
/// mend: Give `from_dlpack` a DLPack tensor on each rank that is a device of the grid.
[[gnu::cold]] inline std::string dlpack_missing(std::int64_t rank) {
  return sentence({"rank ", number(rank), " is a device of the grid, but was given no DLPack tensor"});
}
/// mend: Ask the producer for a version that Cleave knows: `x.__dlpack__(max_version=(1, 0))`.
[[gnu::cold]] inline std::string dlpack_version(std::int64_t rank, std::int64_t got) {
  return sentence(
      {"the DLPack tensor of rank ", number(rank), " has the major version ", number(got), ", but only 1 is known"});
}
/// mend: Move the array to the device of the rank first. With kernels on the host its memory must be that of the host.
[[gnu::cold]] inline std::string dlpack_device(std::int64_t rank, std::int64_t type, std::int64_t id) {
  return sentence({"the DLPack tensor of rank ", number(rank), " is on device ", number(id), " of type ", number(type),
                   " of DLPack, which Kokkos' default execution space does not run on"});
}
/// mend: Convert the array first, as `x.astype(numpy.float32)`, or use a tensor with its element type.
[[gnu::cold]] inline std::string dlpack_element(std::int64_t rank, std::string_view expected, std::string_view got) {
  return sentence({"the elements of the DLPack tensor of rank ", number(rank), " are ", got,
                   ", but those of the tensor are ", expected});
}
/// mend: Copy the array, so that its elements begin where the processor can read them at once.
[[gnu::cold]] inline std::string dlpack_alignment(std::int64_t rank, std::int64_t bytes) {
  return sentence({"the elements of the DLPack tensor of rank ", number(rank), " do not begin at a multiple of ",
                   number(bytes), " bytes"});
}
/// mend: Construct the grid from the communicator of the other library's object, or of the same ranks in the same
/// order.
[[gnu::cold]] inline std::string foreign_ranks(std::string_view what) {
  return sentence({"the grid and the ", what, " are on other communicators, or their ranks are in another order"});
}
/// mend: Give the other library the blocks that Cleave has, ceil(n / devices) indices each (`local_extents()`), or copy
/// with `from_boxes` and `to_boxes`; for PETSc, `copy_from_vec` and `copy_to_vec`.
[[gnu::cold]] inline std::string foreign_block(std::string_view what, std::int64_t rank, std::string_view dim,
                                               std::int64_t begin, std::int64_t end, std::int64_t got_begin,
                                               std::int64_t got_end) {
  return sentence({"along dim ", quoted(dim), " the ", what, " has the indices from ", number(got_begin), " to below ",
                   number(got_end), " on rank ", number(rank), ", but the shard has those from ", number(begin),
                   " to below ", number(end)});
}
/// mend: Use a tensor with one dim for each of the other library's, in its order from the slowest to the fastest one.
[[gnu::cold]] inline std::string foreign_rank(std::string_view what, std::int64_t expected, std::int64_t got) {
  return sentence({"the ", what, " has ", number(got), " dims, but the tensor has ", number(expected)});
}
/// mend: Make a tensor with the global extents of the other library's object.
[[gnu::cold]] inline std::string foreign_extent(std::string_view what, std::string_view dim, std::int64_t expected,
                                                std::int64_t got) {
  return sentence({"along dim ", quoted(dim), " the ", what, " has extent ", number(got), ", but the tensor has ",
                   number(expected)});
}
/// mend: Use a contiguous Map, of which each rank has consecutive rows, or import the vector to one.
[[gnu::cold]] inline std::string foreign_order() {
  return "cleave: the rows of the MultiVector are not consecutive on each rank, as those of a tensor are";
}
/// mend: PETSc says more if it runs with an error handler. A Vec that is locked for reading can only be wrapped by
/// `wrap_const_vec`, and one whose memory is not where kernels run not at all.
[[gnu::cold]] inline std::string petsc_failed(std::string_view call, std::int64_t code) {
  return sentence({call, " of PETSc failed with the error code ", number(code)});
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
/// mend: Pass a View that was allocated as one block, or the `view<...>()` of a shard. Copy a subview with gaps into
/// such a View first.
[[gnu::cold]] inline std::string view_not_contiguous() {
  return "cleave: a collective on shards was given a View that is not contiguous";
}
/// mend: Ask for the View with the element type of the operand or result: `in[0].view<const float**>()` for a tensor of
/// float with two dims.
[[gnu::cold]] inline std::string shard_element(std::string_view expected, std::string_view got) {
  return sentence({"the shard has elements of type ", expected, ", but was asked for as ", got});
}
/// mend: The whole has as many elements as all parts together, and all parts have the same length. If blocks are
/// uneven, pad the last one.
[[gnu::cold]] inline std::string parts_do_not_fit(std::int64_t expected, std::int64_t got) {
  return sentence(
      {"a collective on shards needs a View of ", number(expected), " elements, but was given one of ", number(got)});
}
/// mend: Give one number of elements for each device along the axis, and Views that have room for all of them.
[[gnu::cold]] inline std::string pieces_do_not_fit(std::int64_t devices, std::int64_t counts, std::int64_t room,
                                                   std::int64_t got) {
  return sentence({"an all_to_all on shards needs a count for each of ", number(devices),
                   " devices and pieces of at most ", number(room), " elements together, but was given ",
                   number(counts), " counts of ", number(got), " elements"});
}
/// mend: The root of a broadcast is a position along the axis: from 0 to `size(axis)` - 1, the same on all devices.
[[gnu::cold]] inline std::string no_such_position(std::int64_t got, std::int64_t size) {
  return sentence({"a broadcast from position ", number(got), " along an axis of ", number(size), " devices"});
}
/// mend: Keep the `cleave::object` alive while plans run with its handle, and use it on the grid for which it was
/// constructed.
[[gnu::cold]] inline std::string no_such_object(std::int64_t got) {
  return sentence({"a kernel was given the handle ", number(got), ", which is no object of its grid"});
}
/// mend: Ask for the type that the object was constructed with: `object_of<solver>` for a `cleave::object<solver>`.
[[gnu::cold]] inline std::string object_of_another_type(std::int64_t got) {
  return sentence({"a kernel was given the handle ", number(got), ", and asks for its object by another type"});
}
/// mend: Count rows and columns from 0, and give the matrix as many as its triplets need.
[[gnu::cold]] inline std::string triplet_outside(std::int64_t row, std::int64_t column, std::int64_t rows,
                                                 std::int64_t columns) {
  return sentence({"a triplet at row ", number(row), ", column ", number(column), " lies outside of a matrix of ",
                   number(rows), " x ", number(columns)});
}
/// mend: Multiply the matrix with a vector that has as many elements along its dim as the matrix has columns.
[[gnu::cold]] inline std::string columns_differ(std::int64_t columns, std::int64_t extent, std::string_view dim) {
  return sentence({"a sparse matrix of ", number(columns), " columns was multiplied with a vector whose dim ",
                   quoted(dim), " has extent ", number(extent)});
}
/// mend: Shard the rows over more devices: a device can hold 2^31 - 1 rows, columns that it reads, and others.
[[gnu::cold]] inline std::string too_many_columns(std::int64_t got) {
  return sentence({"a device would read ", number(got), " elements of a vector for its rows of a sparse matrix"});
}
/// thrown: file_error
/// mend: Look at that line of the file. Matrix Market files have a banner, comments, a line with the numbers of rows,
/// columns and entries, and an entry a line, which count from 1.
[[gnu::cold]] inline std::string market_line(std::string_view path, std::int64_t line, market_fault what) {
  constexpr std::string_view words[] = {
      "the first line is not '%%MatrixMarket matrix coordinate FIELD SYMMETRY'",
      "only coordinate matrices are read, of real, integer or pattern entries, general or symmetric",
      "there are not three numbers, of rows, columns and entries, equal ones of rows and columns if it is symmetric",
      "an entry is not a row, a column and, unless it is a pattern, a number",
      "an entry lies outside of the matrix",
      "an entry of a symmetric matrix lies above the diagonal",
      "the file ends before all entries that it announces",
      "there are more entries than the file announces",
  };
  return sentence({path, ":", number(line), ": ", words[underlying(what)]});
}
/// thrown: file_error
/// mend: Give the path of a file that rank 0 of the grid can read.
[[gnu::cold]] inline std::string file_not_open(std::string_view path) {
  return sentence({"cannot open ", quoted(path)});
}
/// thrown: file_error
/// mend: Look at the folder, its permissions, and the space that is left on its disk, where rank 0 of the grid runs. A
/// file to which a step was not written completely may be damaged: write to another one.
[[gnu::cold]] inline std::string file_not_written(std::string_view path, std::string_view why) {
  return sentence({"cannot write ", quoted(path), ": ", why});
}
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
/// mend: Call the collective several times on parts of the View, or use MPI 4.
[[gnu::cold]] inline std::string too_many_for_one_call(std::int64_t most, std::int64_t got) {
  return sentence(
      {"a collective on shards moves at most ", number(most), " elements with this MPI, but was given ", number(got)});
}
/// mend: The spectrum of N real numbers has N/2 + 1 values, rounded down. Give this extent to the result of `rfft` or
/// the operand of `irfft`.
[[gnu::cold]] inline std::string spectrum_extent(std::string_view dim, std::int64_t expected, std::int64_t numbers,
                                                 std::int64_t got) {
  return sentence({"dim ", quoted(dim), " needs the extent ", number(expected), " of the spectrum of ", number(numbers),
                   " real numbers, but has ", number(got)});
}
/// mend: FFTW refuses a transform if it has no memory for its plan. For cuFFT, the number at the end is its
/// cufftResult.
[[gnu::cold]] inline std::string transform_failed(std::string_view library, std::int64_t n, std::int64_t code) {
  return sentence({library, " cannot transform ", number(n), " numbers: error ", number(code)});
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
/// mend: Construct the tensor with a grid and extents, and assign the statement to it.
[[gnu::cold]] inline std::string no_grid_to_be_made_on() {
  return "cleave: a tensor is made on the grid of the tensors in its statement, and this statement has none";
}
/// mend: Construct the grid from the mesh in the layout of the tensor, `grid(lm::mesh, comm, sizes)`.
[[gnu::cold]] inline std::string grid_of_another_mesh() { return "cleave: the grid has another mesh than the tensor"; }
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
/// mend: Call `MPI_Init_thread`, then construct a `Kokkos::ScopeGuard`, before the first grid or tensor is constructed.
/// A program with MPI sessions makes its grids from a communicator of `MPI_Comm_create_from_group`.
[[gnu::cold]] inline std::string not_initialised(std::string_view library) {
  return sentence({library, " is not initialised yet"});
}
/// mend: Do this before `MPI_Finalize` and `Kokkos::finalize`. Only destroying grids and tensors is safe afterwards.
[[gnu::cold]] inline std::string finalised(std::string_view library) {
  return sentence({library, " has been finalised already"});
}
/// mend: A rank that is not to be a device takes part with the whole communicator. Give the grid a part of the ranks:
/// `grid(mesh, comm, sizes, on_ranks{first, stride})`.
[[gnu::cold]] inline std::string communicator_null() { return "cleave: the communicator of the grid is MPI_COMM_NULL"; }
/// mend: Merge the two groups with `MPI_Intercomm_merge` first.
[[gnu::cold]] inline std::string communicator_inter() {
  return "cleave: the communicator of the grid is an intercommunicator; a grid needs an intracommunicator";
}
/// mend: Use more devices, shard more dims, or use smaller extents.
[[gnu::cold]] inline std::string out_of_memory(std::int64_t bytes) {
  return sentence({"this device cannot allocate ", number(bytes), " bytes"});
}
/// mend: Use more devices, shard more dims, or use smaller extents. `plan.workspace(sizes)` is what a plan needs beside
/// its tensors.
[[gnu::cold]] inline std::string rank_out_of_memory(std::int64_t bytes, std::string_view what, std::int64_t rank) {
  return sentence({"rank ", number(rank), " cannot allocate ", number(bytes), " bytes for ", what});
}
/// mend: Look for extents that were multiplied or converted wrongly. Sizes have 64 bits.
[[gnu::cold]] inline std::string too_many_bytes() { return "cleave: the tensor has more bytes than 64 bits can count"; }
/// mend: Give each result its own memory: `f(u).into(v, w)`. A result may be an argument, but two results may not share
/// memory.
[[gnu::cold]] inline std::string results_overlap(std::size_t first, std::size_t second) {
  return sentence({"result ", number(first), " and result ", number(second), " of one call are in the same memory"});
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
/// mend: Construct the grid on all ranks of the communicator, in the same order as others. If some ranks are only slow,
/// raise the limit: CLEAVE_TIME_LIMIT in the environment.
[[gnu::cold]] inline std::string grid_not_everywhere(std::int64_t seconds) {
  return sentence({"not all ranks of the communicator construct the grid within ", number(seconds), " s"});
}
/// mend: Compute the argument in the same way on all ranks, or broadcast it. A replicated tensor must have the same
/// bits on all devices that hold a replica.
[[gnu::cold]] inline std::string replicas_differ(std::int64_t argument, std::string_view type, std::int64_t a,
                                                 std::int64_t b, std::string_view values) {
  return sentence(
      {"argument ", number(argument), ", ", type, ", differs between ranks ", number(a), " and ", number(b), values});
}
/// mend: Look at what the predicate or the number of iterations is computed from. It must be the same on all ranks.
[[gnu::cold]] inline std::string iterations_differ(std::int64_t a, std::int64_t b) {
  return sentence({"ranks ", number(a), " and ", number(b), " disagree on the number of iterations of a loop"});
}
/// thrown: nan_error
/// mend: Look at that line for a division by 0, a logarithm or a root of a negative number, or a difference of
/// infinities.
[[gnu::cold]] inline std::string made_nan(std::string_view op, std::string_view where, std::string_view type,
                                          std::string_view index, std::int64_t rank) {
  return sentence(
      {"the first NaN was made by ", op, where, ": ", type, " at index ", index, " on rank ", number(rank)});
}
/// thrown: nan_error
/// mend: Look for the call, or for the code of your own, that computed the argument.
[[gnu::cold]] inline std::string argument_has_nan(std::int64_t argument, std::string_view type, std::string_view index,
                                                  std::int64_t rank) {
  return sentence({"argument ", number(argument), ", ", type, ", has a NaN before the call, at index ", index,
                   " on rank ", number(rank)});
}
/// mend: Give one array for each argument, in the order of the function's parameters. An aggregate has one for each of
/// its tensors.
[[gnu::cold]] inline std::string arrays_needed(std::int64_t expected, std::int64_t got) {
  return sentence({"the program has ", number(expected), " arguments, but ", number(got), " arrays were given"});
}
/// mend: Give the array the extents that the sizes of the call give to the argument's dims, in the written order.
[[gnu::cold]] inline std::string array_extents(std::int64_t argument) {
  return sentence({"the array for argument ", number(argument), " does not have the extents of the argument"});
}
/// mend: Give sizes that fit together: the extent of a dim that is split or merged is the product of the extents of its
/// parts. `plan.sized({...})` computes those that follow from others.
[[gnu::cold]] inline std::string sizes_contradict(std::string_view op) {
  return sentence({"the sizes that were given contradict each other: a ", op, " changes the number of elements"});
}
/// mend: Run the program on one device, and compare with that.
[[gnu::cold]] inline std::string not_on_doubles() {
  return "cleave: complex numbers can be neither evaluated nor simulated, because arrays hold doubles";
}
/// mend: Give the operation a static function `reference`, which computes it on doubles.
[[gnu::cold]] inline std::string reference_missing(std::string_view op) {
  return sentence(
      {"the operation ", quoted(op), " has no reference function, so it can be neither evaluated nor simulated"});
}
/// mend: This is a fault of the library. Please report the function and the layouts.
[[gnu::cold]] inline std::string plan_inconsistent(std::string_view op, std::string_view dim, std::int64_t expected,
                                                   std::int64_t got) {
  return sentence({"the plan is wrong; please report it: in ", op, " dim ", quoted(dim), " has extent ",
                   number(expected), " in one operand and ", number(got), " in another"});
}

} // namespace wording

} // namespace cleave::inline v0
