// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <string>

// The sentences of exceptions about tensors, their extents and their Views.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Give the global extent of every dim, in the written order. Dims of fixed extent need one too: `{1024, 512}`
/// for `mesh(batch / data, embed)`.
inline constexpr text<2> extents_needed{"the tensor has {expected} dims, but {got} extents were given"};
/// fix: Name each dim of the tensor once: `{batch = 1024, embed = 512}`.
inline constexpr text<2> extent_given_times{"dim '{dim}' needs one extent, but was given {got}"};
/// fix: Name dims of the tensor's layout. Sizes of axes belong to the grid.
inline constexpr text<1> extent_of_no_dim{"an extent was given for '{dim}', which is no dim of the tensor"};
/// thrown: grid_error
/// fix: Construct the tensor on the left with a grid and extents, `Field v(grid, {rows, cols})`, or with the
/// statement, `Field v = f(u);`, which takes both from the arguments.
[[gnu::cold]] inline std::string result_without_data(std::size_t result, std::size_t of) {
  if (of == 1)
    return "cleave: the result, to which the statement is assigned, has no grid: construct it with a "
           "grid or with the statement";
  return sentence({"result ", number(result), " of the call has no grid"});
}
/// thrown: grid_error
/// fix: Construct the argument with a grid and extents, and give it values, before you call the function.
inline constexpr text<1> argument_without_data{"argument {argument} of the call has no grid"};
/// thrown: view_error
/// fix: Capture the View, which shares the elements of the tensor: `const auto v = x.view();` before the kernel, and
/// `v` in it.
inline constexpr text<0> tensor_in_kernel{
    "a kernel captures a tensor; that is a copy, and what the kernel writes into it is lost: capture x.view()"};
/// fix: A slice begins and ends within its dim. The gradient of a periodic or reflecting border needs dims that are at
/// least as long as the part that windows and shifts reach beyond them: use border::zero or longer dims.
inline constexpr text<3> extent_too_small{
    "dim '{dim}' has extent {got}, but the function needs at least {least}, for a slice or for what a border "
    "mirrors",
    {"dim", "least", "got"}};
/// fix: Name a wider type, as in `iota<std::int64_t>(x, row)` and `count<std::int64_t>(x)`. argmax, argmin, top_k,
/// labels and start indices of 32 bits need dims of at most 2^31 - 1 indices: split a longer one.
inline constexpr text<3> index_too_large{
    "dim '{dim}' has extent {got}, but the function numbers its indices in {type}, which cannot hold so many"};
/// fix: Positions begin with 0; or name the dim: `x.extent(batch)`.
inline constexpr text<2> no_such_dim{"the tensor has {rank} dims, and none at position {got}"};
/// fix: Pass the extents of the whole tensor, the same on every rank. Do not pass the size of the local shard; Cleave
/// computes it.
inline constexpr text<3> extents_disagree{
    "the ranks do not agree on the extent of dim '{dim}': from {least} to {most}"};
/// fix: A dim has one extent in all tensors of a call. If you mean two extents, declare two dims with two names. The
/// dim `entry row,col` is of a sparse matrix: give matrices of one function a name each, the last argument of `csr`.
inline constexpr text<3> extents_differ{"dim '{dim}' has extent {expected} in one tensor and {got} in another"};
/// fix: Fix the extent in the type, as in `dim<"class", 10>`, or pass a tensor that has the dim. This is needed for
/// `one_hot` and for the parts of a `split`.
inline constexpr text<1> extent_unknown{
    "the extent of dim '{dim}' follows from no argument or result; fix it in the dim's type"};
/// fix: Choose an extent that is a multiple of its parts: a number of microbatches that is a multiple of the stages, a
/// sequence that is a multiple of its blocks.
inline constexpr text<4> extent_no_multiple{
    "dim '{whole}' has extent {extent}, which is no multiple of the {by} of dim '{part}', into which it is "
    "split",
    {"whole", "extent", "part", "by"}};
/// fix: Allocate the View with `local_extents()` of a tensor of this type, or with the size of your block. Blocks have
/// ceil(extent / devices) elements; the last ones may be smaller or empty.
inline constexpr text<4> view_extent{
    "along dim '{dim}' the shard of rank {rank} has extent {expected}, but its View has {got}",
    {"dim", "expected", "got", "rank"}};
/// fix: Allocate the View with the extents of the shard and twice the widths of the ghosts. A rank whose shard has no
/// elements may give an empty View.
inline constexpr text<4> view_inner_extent{
    "along dim '{dim}' the shard of rank {rank} has extent {expected}, but its View without its ghosts has "
    "{got}",
    {"dim", "expected", "got", "rank"}};
/// fix: Give `with_ghosts` how many ghosts there are on each side: 0 or more.
inline constexpr text<3> view_ghosts{"along dim '{dim}' the View of rank {rank} has {got} ghosts",
                                     {"dim", "got", "rank"}};
/// fix: Wrap a View that has memory for each of its elements. A `Kokkos::LayoutStride` View with stride 0, or one
/// whose rows overlap, shows some elements several times.
inline constexpr text<4> view_stride{
    "along dim '{dim}' the View of rank {rank} has stride {got}, but its elements are apart only from {least} "
    "on",
    {"dim", "least", "got", "rank"}};
/// fix: Wrap a View on every device or on none, if it is not contiguous or its elements are constants. A device
/// without elements wraps an empty View.
inline constexpr text<2> view_on_some{
    "the tensor wraps a strided or constant View on rank {view}, but none on rank {none}"};
/// fix: Wrap a View whose elements are not const, or assign to a tensor of its own.
inline constexpr text<0> view_is_read_only{"the tensor wraps a View of constants, so nothing can be assigned to it"};
/// fix: Call `x.release_halo()` on all devices before the View is used, and `x.keep_halo()` afterwards.
inline constexpr text<0> view_of_kept_halo{
    "the tensor keeps its halo, and a View writes elements without its knowledge; release_halo() gives Views"};
/// fix: Construct the tensor with `kept_halo{1, 1}`, or with a View by `with_ghosts(view, {1, 1})`.
inline constexpr text<0> halo_without_ghosts{"the tensor has no ghosts, so it cannot keep its halo"};
/// fix: Use `strided_view()`, which fits every shard, or copy the View into a tensor of its own: `tensor(x)`.
inline constexpr text<0> view_is_strided{
    "the tensor wraps a View that is not contiguous, so its shard has no LayoutRight View"};
/// fix: Construct the tensor with a grid and extents, and assign the statement to it.
inline constexpr text<0> no_grid_to_be_made_on{
    "a tensor is made on the grid of the tensors in its statement, and this statement has none"};
/// fix: Construct all tensors of one computation with one grid or copies of its handle. Two grids of the same mesh are
/// different grids.
inline constexpr text<0> grids_differ{"the tensors of one expression are on two grids"};
/// fix: Ask `tensor.get_grid().active()` before you use the shard, or use tensors of a grid that has this rank as a
/// device.
inline constexpr text<0> grid_elsewhere{"this rank is not a device of the tensor's grid, so it has no shard"};
/// fix: Look for extents that were multiplied or converted wrongly. Sizes have 64 bits.
inline constexpr text<0> too_many_bytes{"the tensor has more bytes than 64 bits can count"};

}}} // namespace cleave::v0::wording
