// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about calls, and of kernels that run on shards.

namespace cleave { inline namespace v0 { namespace wording {

/// mend: Write a number that the element type of the tensor beside it has, or convert the tensor: `cast<int>(x) < 300`.
[[gnu::cold]] inline std::string number_does_not_fit(std::string_view number, std::string_view type) {
  return sentence(
      {"a number of the statement takes the element type ", type, " of the tensor beside it, which has no ", number});
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
/// mend: Construct the grid from the mesh in the layout of the tensor, `grid(lm::mesh, comm, sizes)`.
[[gnu::cold]] inline std::string grid_of_another_mesh() { return "cleave: the grid has another mesh than the tensor"; }
/// mend: Give each result its own memory: `f(u).into(v, w)`. A result may be an argument, but two results may not share
/// memory.
[[gnu::cold]] inline std::string results_overlap(std::size_t first, std::size_t second) {
  return sentence({"result ", number(first), " and result ", number(second), " of one call are in the same memory"});
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
/// thrown: label_error
/// mend: Correct the label. If it stands for nothing, as that of padding, say so: `nn::cross_entropy(scores, labels,
/// word, ignore{-100})`.
[[gnu::cold]] inline std::string label_outside(std::int64_t label, std::string_view index, std::string_view dim,
                                               std::int64_t extent, std::string_view where, std::int64_t rank) {
  return sentence({"label ", number(label), " of ", index, " is no index of dim ", quoted(dim), " of extent ",
                   number(extent), "; it was read", where, " on rank ", number(rank)});
}
/// mend: This is a fault of the library. Please report the function and the layouts.
[[gnu::cold]] inline std::string plan_inconsistent(std::string_view op, std::string_view dim, std::int64_t expected,
                                                   std::int64_t got) {
  return sentence({"the plan is wrong; please report it: in ", op, " dim ", quoted(dim), " has extent ",
                   number(expected), " in one operand and ", number(got), " in another"});
}

}}} // namespace cleave::v0::wording
