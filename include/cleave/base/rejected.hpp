// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/fault.hpp>
#include <cleave/base/text.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace cleave {

/// The facts of an error, as types, so that every compiler prints them beside the sentence.
template <unsigned Line>
struct line {};
template <text Name>
struct op_named {};
template <text Name>
struct dim_named {};
template <text Name>
struct axis_named {};
template <std::int64_t Number>
struct expected {};
template <std::int64_t Number>
struct got {};

/// Every compile error of the library: one literal sentence a fault, with the facts in the template arguments. The only
/// place where faults are worded for the compiler.
template <fault Fault, class... Facts>
struct rejected {
  static_assert(Fault != fault::axis_not_in_mesh, "cleave: this axis is not in the mesh");
  static_assert(Fault != fault::axis_used_twice, "cleave: this axis is used twice in one layout");
  static_assert(Fault != fault::dim_used_twice, "cleave: this dim appears twice in one tensor");
  static_assert(Fault != fault::dim_missing, "cleave: the operand does not have this dim");
  static_assert(Fault != fault::contracted_dim_missing, "cleave: one operand does not have the contracted dim");
  static_assert(Fault != fault::extents_differ, "cleave: this dim has two different fixed extents");
  static_assert(Fault != fault::dims_do_not_broadcast, "cleave: the operands do not broadcast, neither has all the dims of the other; this dim is missing");
  static_assert(Fault != fault::unreduced_into_nonlinear, "cleave: a value pinned as unreduced over this axis goes into an operation that is not linear for its reduction");
  static_assert(Fault != fault::assignment_to_other_dims, "cleave: the result and the tensor it is assigned to have different dims; this dim is only on one side");
  static_assert(Fault != fault::pinned_layouts_conflict, "cleave: two layouts pinned by the user conflict on this dim");
  static_assert(Fault != fault::element_types_differ, "cleave: the operands have different element types; use cast");
  static_assert(Fault != fault::meshes_differ, "cleave: tensors of two different meshes meet in one computation");
  static_assert(Fault != fault::contract_broken, "cleave: the plan needs a collective that the contract forbids");
  static_assert(Fault != fault::too_many_dims, "cleave: a computation has at most 64 dims");
  static_assert(Fault != fault::too_many_nodes, "cleave: a computation has at most 65534 operations");
  static_assert(Fault != fault::too_many_views, "cleave: a computation relates at most 64 dims by renaming, splitting and merging");
  static_assert(Fault != fault::rank_too_high, "cleave: a tensor has at most 8 dims");
  static_assert(Fault != fault::layouts_tie, "cleave: two layouts of this value cost the same; constrain it to choose");
  static_assert(Fault != fault::internal, "cleave: a pass of the planner broke its invariants; please report this program");
  static_assert(Fault != fault::loss_not_scalar, "cleave: a gradient is that of one floating-point number; the function returns another type first");
  static_assert(Fault != fault::not_differentiable, "cleave: a gradient is asked by a value that is no floating-point number");
  static_assert(Fault != fault::cotangent_does_not_fit, "cleave: a cotangent has other dims or another element type than the value it belongs to");
  static_assert(Fault != fault::result_count, "cleave: the function returns another number of tensors than its signature names");
};

/// What functions of a rejected plan return: it satisfies every comparison, so that one fault is one error.
struct absorbed {
  template <class T>
  constexpr operator T() const {
    return T{};
  }
  template <class T>
  friend constexpr bool operator==(absorbed, const T&) { return true; }
  template <class T>
  friend constexpr bool operator<=(absorbed, const T&) { return true; }
  template <class T>
  friend constexpr bool operator>=(absorbed, const T&) { return true; }
  template <class T>
  friend constexpr bool operator<(absorbed, const T&) { return true; }
  template <class T>
  friend constexpr bool operator>(absorbed, const T&) { return true; }
};

namespace detail {

template <std::size_t N>
constexpr text<N + 1> text_of(std::string_view before, std::string_view from = {}) {
  char chars[N + 1]{};
  for (std::size_t i = 0; i < N; ++i) chars[i] = i < before.size() ? before[i] : from[i - before.size()];
  return text<N + 1>(chars);
}

/// `rejected` with the facts of Source::found; Source is any type with such a static constexpr verdict.
template <class Source>
struct reject {
  static constexpr std::size_t prefix = Source::found.gradient ? std::string_view("gradient of ").size() : 0;
  static constexpr auto op = text_of<prefix + Source::found.op.size()>(prefix > 0 ? "gradient of " : "", Source::found.op);
  static constexpr auto dim = text_of<Source::found.dim.size()>(Source::found.dim);
  static constexpr auto axis = text_of<Source::found.axis.size()>(Source::found.axis);
  static constexpr bool sized = Source::found.expected != Source::found.got;
  using type = std::conditional_t<sized,
                                  rejected<Source::found.fault, line<Source::found.where.line>, op_named<op>, dim_named<dim>,
                                           axis_named<axis>, expected<Source::found.expected>, got<Source::found.got>>,
                                  rejected<Source::found.fault, line<Source::found.where.line>, op_named<op>, dim_named<dim>,
                                           axis_named<axis>>>;
};

/// Says the fault of Source when its member type is used, if it has one.
template <class Source, bool Ok = Source::found.ok()>
struct said {
  using type = rejected<fault::none>;
};
template <class Source>
struct said<Source, false> : reject<Source> {};

} // namespace detail

} // namespace cleave
