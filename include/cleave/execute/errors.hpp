// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

// The sentences of exceptions about calls, and of kernels that run on shards.

namespace cleave { inline namespace v0 { namespace wording {

/// fix: Write a number that the element type of the other operand has, or convert the tensor: `cast<int>(x) < 300`.
inline constexpr text<2> number_does_not_fit{
    "a number of the statement takes the element type {type} of the tensor beside it, which has no {number}",
    {"number", "type"}};
/// fix: Pass a View that was allocated as one block, or the `view<...>()` of a shard. Copy a subview with gaps into
/// such a View first.
inline constexpr text<0> view_not_contiguous{"a collective on shards was given a View that is not contiguous"};
/// fix: Ask for the View with the element type of the operand or result: `in[0].view<const float**>()` for a tensor of
/// float with two dims.
inline constexpr text<2> shard_element{"the shard has elements of type {expected}, but was asked for as {got}"};
/// fix: The whole has as many elements as all parts together, and all parts have the same length. If blocks are
/// uneven, pad the last one.
inline constexpr text<2> parts_do_not_fit{
    "a collective on shards needs a View of {expected} elements, but was given one of {got}"};
/// fix: Give one number of elements for each device along the axis, and Views that have room for all of them.
inline constexpr text<4> pieces_do_not_fit{
    "an all_to_all on shards needs a count for each of {devices} devices and pieces of at most {room} elements "
    "together, but was given {counts} counts of {got} elements",
    {"devices", "counts", "room", "got"}};
/// fix: The root of a broadcast is a position along the axis: from 0 to `size(axis)` - 1, the same on all devices.
inline constexpr text<2> no_such_position{"a broadcast from position {got} along an axis of {size} devices"};
/// fix: Keep the `cleave::object` alive while plans run with its handle, and use it on the grid for which it was
/// constructed.
inline constexpr text<1> no_such_object{"a kernel was given the handle {got}, which is no object of its grid"};
/// fix: Ask for the type that the object was constructed with: `object_of<solver>` for a `cleave::object<solver>`.
inline constexpr text<1> object_of_another_type{
    "a kernel was given the handle {got}, and asks for its object by another type"};
/// fix: Construct the grid from the mesh in the layout of the tensor, `grid(lm::mesh, comm, sizes)`.
inline constexpr text<0> grid_of_another_mesh{"the grid has another mesh than the tensor"};
/// fix: Give each result its own memory: `f(u).into(v, w)`. A result may be an argument, but two results may not share
/// memory.
inline constexpr text<2> results_overlap{"result {first} and result {second} of one call are in the same memory"};
/// fix: This is a fault of the library. Please report the function and the layouts.
inline constexpr text<4> plan_inconsistent{
    "the plan is wrong; please report it: in {op} dim '{dim}' has extent {expected} in one operand and {got} "
    "in another"};

}}} // namespace cleave::v0::wording
