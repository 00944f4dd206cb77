// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about objects of other libraries.

namespace cleave { inline namespace v0 { namespace wording {

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

}}} // namespace cleave::v0::wording
