// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about objects of other libraries.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Give `from_dlpack` a DLPack tensor on each rank that is a device of the grid.
inline constexpr text<1> dlpack_missing{"rank {rank} is a device of the grid, but was given no DLPack tensor"};
/// fix: Ask the producer for a version that Cleave knows: `x.__dlpack__(max_version=(1, 0))`.
inline constexpr text<2> dlpack_version{
    "the DLPack tensor of rank {rank} has the major version {got}, but only 1 is known"};
/// fix: Move the array to the device of the rank first. With kernels on the host its memory must be that of the host.
inline constexpr text<3> dlpack_device{
    "the DLPack tensor of rank {rank} is on device {id} of type {type} of DLPack, which Kokkos' default "
    "execution space does not run on",
    {"rank", "type", "id"}};
/// fix: Convert the array first, as `x.astype(numpy.float32)`, or use a tensor with its element type.
inline constexpr text<3> dlpack_element{
    "the elements of the DLPack tensor of rank {rank} are {got}, but those of the tensor are {expected}",
    {"rank", "expected", "got"}};
/// fix: Copy the array, so that its elements begin where the processor can read them at once.
inline constexpr text<2> dlpack_alignment{
    "the elements of the DLPack tensor of rank {rank} do not begin at a multiple of {bytes} bytes"};
/// fix: Construct the grid from the communicator of the other library's object, or of the same ranks in the same
/// order.
inline constexpr text<1> foreign_ranks{
    "the grid and the {what} are on other communicators, or their ranks are in another order"};
/// fix: Give the other library the blocks that Cleave has, ceil(n / devices) indices each (`local_extents()`), or copy
/// with `from_boxes` and `to_boxes`; for PETSc, `copy_from_vec` and `copy_to_vec`.
inline constexpr text<7> foreign_block{
    "along dim '{dim}' the {what} has the indices from {got_begin} to below {got_end} on rank {rank}, but the "
    "shard has those from {begin} to below {end}",
    {"what", "rank", "dim", "begin", "end", "got_begin", "got_end"}};
/// fix: Use a tensor with one dim for each of the other library's, in its order from the slowest to the fastest one.
inline constexpr text<3> foreign_rank{"the {what} has {got} dims, but the tensor has {expected}",
                                      {"what", "expected", "got"}};
/// fix: Make a tensor with the global extents of the other library's object.
inline constexpr text<4> foreign_extent{"along dim '{dim}' the {what} has extent {got}, but the tensor has {expected}",
                                        {"what", "dim", "expected", "got"}};
/// fix: Use a contiguous Map, of which each rank has consecutive rows, or import the vector to one.
inline constexpr text<0> foreign_order{
    "the rows of the MultiVector are not consecutive on each rank, as those of a tensor are"};
/// fix: PETSc says more if it runs with an error handler. A Vec that is locked for reading can only be wrapped by
/// `wrap_const_vec`, and one whose memory is not where kernels run not at all.
inline constexpr text<2> petsc_failed{"{call} of PETSc failed with the error code {code}"};

}}} // namespace cleave::v0::wording
