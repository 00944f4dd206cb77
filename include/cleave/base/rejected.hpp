// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/fault.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace cleave::inline v0 {

/// The facts of an error, as types, so that every compiler prints them beside the sentence.
template <unsigned Line>
struct line {};
template <text Name>
struct in_file {};
template <text Name>
struct op_named {};
template <text Name>
struct written_as {};
template <text Name>
struct dim_named {};
template <text Name>
struct axis_named {};
template <text Name>
struct collective_named {};
template <std::int64_t Number>
struct expected {};
template <std::int64_t Number>
struct got {};

/// Compared by name: beside `!=` compilers would add the numbers of the two faults.
template <fault Found, fault Other>
inline constexpr bool is_not = Found != Other;

/// Every compile error of the library: one literal sentence for each fault, with the facts in the template arguments.
/// No other header words faults for the compiler.
template <fault Fault, class... Facts>
struct rejected {
  static_assert(is_not<Fault, fault::axis_not_in_mesh>, "cleave: this axis is not in the mesh of this layout");
  static_assert(
      is_not<Fault, fault::axis_used_twice>,
      "cleave: this axis is used twice; a mesh has each axis once, and in a layout an axis shards one dim only");
  static_assert(is_not<Fault, fault::dim_used_twice>,
                "cleave: this dim appears twice in one tensor; dims of a tensor have different names");
  static_assert(is_not<Fault, fault::dim_missing>, "cleave: the tensor does not have this dim");
  static_assert(is_not<Fault, fault::contracted_dim_missing>,
                "cleave: dot sums over this dim, but one of its operands does not have it");
  static_assert(is_not<Fault, fault::extents_differ>,
                "cleave: this dim has two different fixed extents in one computation");
  static_assert(
      is_not<Fault, fault::dims_do_not_broadcast>,
      "cleave: the operands do not broadcast: neither has all the dims of the other; one of them lacks this dim");
  static_assert(is_not<Fault, fault::unreduced_into_nonlinear>,
                "cleave: a value that is unreduced over this axis is used by an operation that needs the complete "
                "value; reshard it first");
  static_assert(
      is_not<Fault, fault::assignment_to_other_dims>,
      "cleave: the result and the tensor it is assigned to have different dims; this dim is only on one side");
  static_assert(
      is_not<Fault, fault::pinned_layouts_conflict>,
      "cleave: a value is constrained twice, to two different layouts of this dim; use reshard to change its layout");
  static_assert(
      is_not<Fault, fault::element_types_differ>,
      "cleave: the element types do not match, and there is no implicit conversion; use cast, or for the extent "
      "of a dim count<int>(x, dim)");
  static_assert(is_not<Fault, fault::meshes_differ>,
                "cleave: one computation uses tensors of two different meshes; write all layouts with one mesh");
  static_assert(is_not<Fault, fault::contract_broken>, "cleave: the plan needs a collective that the contract forbids");
  static_assert(is_not<Fault, fault::workspace_too_large>,
                "cleave: the plan needs more bytes of workspace than the contract allows");
  static_assert(is_not<Fault, fault::too_many_dims>, "cleave: a computation has at most 64 dims with different names");
  static_assert(is_not<Fault, fault::too_many_nodes>, "cleave: a computation has at most 65535 operations");
  static_assert(is_not<Fault, fault::too_many_views>,
                "cleave: a computation relates at most 64 dims by rename, split and merge");
  static_assert(is_not<Fault, fault::too_many_loops>,
                "cleave: a computation and its derivatives have at most 64 loops");
  static_assert(
      is_not<Fault, fault::carry_changes>,
      "cleave: a loop carry must keep its element type and dims; the body changes the type, or adds or drops this dim");
  static_assert(is_not<Fault, fault::operator_changes_type>,
                "cleave: the operator, the preconditioner and the start of a solve must have the dims and the element "
                "type of its right-hand side");
  static_assert(is_not<Fault, fault::not_a_count>, "cleave: the number of iterations must be a rank-0 integer");
  static_assert(is_not<Fault, fault::not_a_predicate>, "cleave: a loop or cond predicate must be a rank-0 bool");
  static_assert(
      is_not<Fault, fault::iterations_not_known>,
      "cleave: a loop whose number of iterations is known only at run time has no derivative; use scan or custom_vjp");
  static_assert(is_not<Fault, fault::window_open>,
                "cleave: this dim needs a fixed extent, because the plan depends on it");
  static_assert(
      is_not<Fault, fault::neighbour_too_far>,
      "cleave: a stencil reads a neighbour outside of the neighbourhood of its field: it lies farther away than "
      "the width, or on a diagonal of a star");
  static_assert(is_not<Fault, fault::step_too_small>,
                "cleave: steps, strides, dilations and repeat counts must be at least 1, paddings and widths at least "
                "0, and a slice must begin and end within the dim, and begin before its end");
  static_assert(is_not<Fault, fault::not_a_matrix>,
                "cleave: all devices compute this function of one matrix together, and this dim is none of the "
                "matrix; call it for each index of the dim");
  static_assert(is_not<Fault, fault::dim_too_short>,
                "cleave: this dim has fewer elements than are taken from it or written to it");
  static_assert(is_not<Fault, fault::not_a_start_index>, "cleave: a dynamic start index must be a rank-0 integer");
  static_assert(is_not<Fault, fault::not_an_index>, "cleave: indices and labels must have an integer element type");
  static_assert(is_not<Fault, fault::value_missing>,
                "cleave: an operand or a result of the function was never given a value");
  static_assert(is_not<Fault, fault::not_in_statement>,
                "cleave: these arguments do not fit the function in a statement, where a plain number is known only at "
                "run time; write a number that shapes the plan as constant<1>{}");
  static_assert(
      is_not<Fault, fault::label_dims_differ>,
      "cleave: labels must have the dims of the scores except the dim of the classes; they are not broadcast");
  static_assert(is_not<Fault, fault::too_many_pieces>,
                "cleave: too many operands: concat takes at most 6, windows at most 3");
  static_assert(is_not<Fault, fault::rank_too_high>, "cleave: a tensor has at most 8 dims");
  static_assert(is_not<Fault, fault::too_many_axes>, "cleave: a mesh has at most 7 axes");
  static_assert(is_not<Fault, fault::axis_empty>, "cleave: a mesh axis has at least one device");
  static_assert(is_not<Fault, fault::extent_negative>, "cleave: the extent of a dim must not be negative");
  static_assert(is_not<Fault, fault::not_an_element>, "cleave: this type cannot be the element of a tensor");
  static_assert(is_not<Fault, fault::not_an_argument>,
                "cleave: an argument or result must be a tensor, a number, or an aggregate of these (std::array, "
                "std::tuple, a struct without base classes, references and C arrays); wrap a View in a tensor");
  static_assert(is_not<Fault, fault::too_many_fields>,
                "cleave: an aggregate of tensors has at most 64 fields; nest structs or use std::array");
  static_assert(is_not<Fault, fault::not_for_make>,
                "cleave: make() works for gradients with respect to tensors, of functions that return the loss alone; "
                "use into()");
  static_assert(is_not<Fault, fault::wrong_construction>,
                "cleave: a tensor is constructed with a grid, its extents in braces, and maybe a View of its shard; "
                "write tensor(grid, {1024, 512}, view), with an unmanaged View of a pointer or a vector");
  static_assert(is_not<Fault, fault::tensor_as_view>,
                "cleave: a tensor is no View; write x.view() for the View of this device's shard");
  static_assert(is_not<Fault, fault::tensor_indexed>,
                "cleave: the elements of a tensor are in its shards; write x.view()(i, j) for those of this device, or "
                "x.to_global() for all");
  static_assert(is_not<Fault, fault::statement_as_number>,
                "cleave: a statement computes nothing before it is assigned; assign it to a tensor of rank 0, "
                "tensor<float, mesh()> s(statement), and write s.item()");
  static_assert(
      is_not<Fault, fault::written_otherwise>,
      "cleave: the library has no function of this name; written_as, beside this sentence, says what to write");
  static_assert(is_not<Fault, fault::not_a_fill>,
                "cleave: fill takes a number, and fill_by a function of the array of a global index: "
                "x.fill_by([](const auto& at) { return at[0] + 1.0; })");
  static_assert(is_not<Fault, fault::not_an_option>,
                "cleave: a plan takes options after the function, each an object: expect<batch, 1024>{}, "
                "without<kind::all_gather>{}");
  static_assert(is_not<Fault, fault::name_missing>,
                "cleave: the name of a dim or an axis is a template argument, text in quotes that is not empty");
  static_assert(is_not<Fault, fault::not_assignable>,
                "cleave: only a statement, a tensor or a number can be assigned to a tensor; write elements through "
                "view() or fill_by, or wrap a View");
  static_assert(is_not<Fault, fault::view_elements_differ>,
                "cleave: the View and the tensor that wraps it have different element types");
  static_assert(is_not<Fault, fault::view_out_of_reach>,
                "cleave: the View is in memory that Kokkos' default execution space cannot access");
  static_assert(is_not<Fault, fault::cyclic_dims>,
                "cleave: a tensor that wraps a block-cyclic array has six dims and no partial values, and only the "
                "second and the fifth dim may be sharded");
  static_assert(is_not<Fault, fault::no_such_argument>,
                "cleave: a gradient is taken with respect to an argument that the function does not have");
  static_assert(is_not<Fault, fault::layouts_tie>,
                "cleave: two layouts of this value cost the same; constrain it to choose");
  static_assert(is_not<Fault, fault::internal>,
                "cleave: a pass of the planner broke its invariants; please report this program");
  static_assert(
      is_not<Fault, fault::loss_not_scalar>,
      "cleave: a gradient needs a loss: the first result of the function must be a rank-0 floating-point number");
  static_assert(is_not<Fault, fault::not_differentiable>,
                "cleave: a gradient is taken with respect to, or flows through, a value that is not a real "
                "floating-point number");
  static_assert(is_not<Fault, fault::cotangent_does_not_fit>,
                "cleave: a cotangent has other dims or another element type than its value");
  static_assert(is_not<Fault, fault::captures_a_variable>,
                "cleave: a function with its own derivative captures a value that the gradient depends on; make it an "
                "argument");
  static_assert(is_not<Fault, fault::no_derivative>,
                "cleave: this user-defined operation has no derivative; add one to its entry or use custom_vjp");
  static_assert(is_not<Fault, fault::no_function_for_element>,
                "cleave: this operation is not defined for this element type");
  static_assert(is_not<Fault, fault::not_elementwise>,
                "cleave: a user-defined elementwise operation must take one, two or three numbers of one type and "
                "return that type");
  static_assert(is_not<Fault, fault::operand_count>,
                "cleave: this operation was called with the wrong number of operands");
  static_assert(is_not<Fault, fault::not_a_view>, "cleave: a collective on shards takes Views");
  static_assert(
      is_not<Fault, fault::not_for_complex>,
      "cleave: complex numbers have no order and are not converted to real numbers implicitly; use real, imag or abs");
  static_assert(is_not<Fault, fault::complex_parts>,
                "cleave: the parts of a complex number must be float or double; use cast");
  static_assert(
      is_not<Fault, fault::not_a_key>,
      "cleave: a random key must be an integer from 0 to 2^52, and so must a number that is folded into a key");
  static_assert(is_not<Fault, fault::not_a_probability>,
                "cleave: a probability must be from 0 to 1, and a dropout rate must be below 1");
  static_assert(is_not<Fault, fault::not_floating>,
                "cleave: this operation needs real floating-point numbers; use cast");
  static_assert(is_not<Fault, fault::captures>,
                "cleave: a function must not capture; write [] and pass what it needs as an argument");
  static_assert(
      is_not<Fault, fault::arguments_do_not_fit>,
      "cleave: this function cannot be called with these arguments: it takes another number of them, or other types");
  static_assert(is_not<Fault, fault::result_missing>,
                "cleave: the function returns nothing; return the value that it computes");
  static_assert(is_not<Fault, fault::value_as_condition>,
                "cleave: a value has no number yet, so it cannot be a condition or a loop bound of C++; use select or "
                "cond, repeat_times or repeat_until");
  static_assert(
      is_not<Fault, fault::tensor_as_condition>,
      "cleave: a tensor of rank 0 is no condition; write s.item() for its element, or s.has_data() for whether "
      "it has one");
  static_assert(is_not<Fault, fault::value_indexed>,
                "cleave: a value has no elements yet, so it cannot be indexed or iterated over; use shift for a "
                "neighbour, and slice, gather or dynamic_slice for elements");
  static_assert(is_not<Fault, fault::changed_in_place>,
                "cleave: values and tensors are not changed in place; write x = x + y, and start a value with its "
                "first term or with zeros_like(x)");
  static_assert(is_not<Fault, fault::member_of_tensor>,
                "cleave: a value has no elements and no extents yet; this member belongs to tensors outside of "
                "functions; inside use count(x, row) for an extent");
  static_assert(is_not<Fault, fault::not_an_operand>,
                "cleave: this cannot be an operand here; in a function, operands are its values and numbers, so pass "
                "tensors, Views and other data as its arguments");
  static_assert(is_not<Fault, fault::no_operator>,
                "cleave: values and tensors have no such operator; see the list of operations");
  static_assert(is_not<Fault, fault::short_circuit>,
                "cleave: values and tensors have no && and ||; write & and |, with each comparison in parentheses");
  static_assert(is_not<Fault, fault::larger_of_two>,
                "cleave: max and min reduce over dims; for the larger or the smaller of two values write maximum(a, b) "
                "or minimum(a, b)");
  static_assert(
      is_not<Fault, fault::standard_function>,
      "cleave: functions of namespace std take numbers, not values or tensors; write sin(x) without std::, and "
      "maximum(x, y) and minimum(x, y) for the larger and the smaller of two");
  static_assert(is_not<Fault, fault::sizes_without_braces>,
                "cleave: the sizes of a grid are a list, one for each axis; write grid(mesh, comm, {2, 2})");
  static_assert(
      is_not<Fault, fault::literal_does_not_fit>,
      "cleave: the operand beside this number holds integers or bools, which cannot represent it; cast the operand "
      "first: cast<float>(x) * 0.5f");
  static_assert(is_not<Fault, fault::not_a_layout>,
                "cleave: a mesh consists of axes, and a layout of dims with the axes that shard them: "
                "mesh(batch / data, embed, unreduced(model))");
  static_assert(is_not<Fault, fault::comma_of_names>,
                "cleave: of dims or axes in parentheses, C++ keeps the last one alone; write them without: "
                "batch / data / model, sum(x, batch, embed)");
  static_assert(is_not<Fault, fault::comparison_of_bools>,
                "cleave: the result of a comparison is compared again; write (0 < x) & (x < 1), and cast<int>(b) for "
                "the number of a bool");
  static_assert(is_not<Fault, fault::logic_of_numbers>,
                "cleave: &, | and ! take bools and know no bits; compare the numbers first: (i != 0) & (x > 1)");
  static_assert(is_not<Fault, fault::sum_of_bools>,
                "cleave: a sum of bools would be a bool; count them with sum(cast<int>(x > 0)), or write any(x > 0) or "
                "all(x > 0)");
  static_assert(is_not<Fault, fault::nothing_contracted>,
                "cleave: dot without dims is an outer product, and these operands have the same dims; name those to "
                "sum over, dot(x, y, embed), or write x * y");
  static_assert(is_not<Fault, fault::literal_too_long>,
                "cleave: a number in a function is kept as a double, and this one has more than 53 bits; pass it to "
                "the function as an argument");
  static_assert(is_not<Fault, fault::not_a_whole_number>,
                "cleave: an index, a distance or a number of elements is a whole number with a sign: an int or a "
                "std::int64_t");
  static_assert(is_not<Fault, fault::fraction_into_integers>,
                "cleave: a floating-point number is written into a tensor of integers or bools; convert it first: "
                "static_cast<int>(number)");
  static_assert(is_not<Fault, fault::size_is_fixed>,
                "cleave: a size is given for a dim or an axis whose type fixes another one");
  static_assert(is_not<Fault, fault::results_in_tuple>,
                "cleave: results are written into tensors by into: f(x).into(a, b) in place of std::tie(a, b) = f(x)");
  static_assert(is_not<Fault, fault::index_negative>,
                "cleave: an index that is looked up does not count from the end; write count<int>(x, row) - 1 for the "
                "last one");
  static_assert(is_not<Fault, fault::value_of_a_body>,
                "cleave: a value that the body of a loop or a branch computes is used outside of it; return it from "
                "the body, and carry it from one iteration to the next");
  static_assert(is_not<Fault, fault::not_a_signature>,
                "cleave: a function is planned for a signature, its result and its arguments: plan<Y(X)>(f)");
  static_assert(is_not<Fault, fault::number_from_branch>,
                "cleave: a branch of cond returns a number; return a value, such as zeros_like(x)");
  static_assert(is_not<Fault, fault::branch_no_function>,
                "cleave: a branch of cond is a function of the arguments that follow, cond(p, f, g, x); write "
                "select(p, x, y) for one of two values");
  static_assert(is_not<Fault, fault::scan_without_dim>,
                "cleave: scan takes the dim first and the body last: scan(time, init, inputs, body)");
  static_assert(is_not<Fault, fault::dim_as_number>,
                "cleave: a dim or an axis is a name and has no number; its extent is known when the function is "
                "called: count(x, batch), or x.extent(batch) of a tensor");
  static_assert(is_not<Fault, fault::wrong_arguments>,
                "cleave: these arguments do not fit this function; numbers that shape the plan must be literals or "
                "constants of C++, not values");
  static_assert(is_not<Fault, fault::dims_in_braces>,
                "cleave: dims and operands are arguments of their own, without braces: sum(x, row, col), "
                "concat(whole, piece(x, row), piece(y, row))");
  static_assert(is_not<Fault, fault::type_of_cast>,
                "cleave: cast has one operand, and its element type is a template argument: cast<double>(x)");
  static_assert(is_not<Fault, fault::operation_as_member>,
                "cleave: operations are functions, not members: sum(x, row), cast<double>(x); dims have names, so "
                "nothing is transposed, and rename, split and merge take the place of reshape");
  static_assert(is_not<Fault, fault::value_unpacked>,
                "cleave: this is one value and no tuple; only functions that return several values, and functions of "
                "several results, are unpacked");
  static_assert(is_not<Fault, fault::not_a_function>,
                "cleave: a plan or a gradient takes a function of the library; wrap the lambda: constexpr "
                "cleave::function f([](auto "
                "x) { return x + 1; })");
  static_assert(is_not<Fault, fault::reference_returned>,
                "cleave: the function returns a reference, which may outlive what it refers to; return a value, with "
                "auto as the result type");
  static_assert(is_not<Fault, fault::result_count>,
                "cleave: the function returns or takes a different number of tensors than is expected of it");
};

/// Says a fault from within a function: `say(rejection<fault::name, facts...>)`. The lookup of `say` completes the
/// class. Where an expression needed it complete, clang would have no constant expression any more.
constexpr void say(const void*) {}
template <fault Fault, class... Facts>
inline constexpr rejected<Fault, Facts...>* rejection = nullptr;

/// What functions of a rejected plan return. It satisfies every comparison, so that one fault gives one error.
struct absorbed {
  template <class T>
  constexpr operator T() const {
    return T{};
  }
  template <class T>
  friend constexpr bool operator==(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator<=(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator>=(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator<(absorbed, const T&) {
    return true;
  }
  template <class T>
  friend constexpr bool operator>(absorbed, const T&) {
    return true;
  }
};

namespace detail {

template <std::size_t N>
constexpr text<N + 1> text_of(std::string_view before, std::string_view from = {}) {
  char chars[N + 1]{};
  for (std::size_t i = 0; i < N; ++i) chars[i] = i < before.size() ? before[i] : from[i - before.size()];
  return text<N + 1>(chars);
}

/// `Rejected` with one more fact, if it is known: the compiler prints no empty facts.
template <class Rejected, bool Known, class Fact>
struct with_fact {
  using type = Rejected;
};
template <fault Fault, class... Facts, class Fact>
struct with_fact<rejected<Fault, Facts...>, true, Fact> {
  using type = rejected<Fault, Facts..., Fact>;
};

/// `rejected` with the facts of Source::found, a static constexpr verdict.
template <class Source>
struct reject {
  static constexpr verdict found = Source::found;
  static constexpr std::size_t prefix = found.gradient ? std::string_view("gradient of ").size() : 0;
  static constexpr auto op = text_of<prefix + found.op.size()>(prefix > 0 ? "gradient of " : "", found.op);
  static constexpr auto dim = text_of<found.dim.size()>(found.dim);
  static constexpr auto axis = text_of<found.axis.size()>(found.axis);
  // If a contract forbids a collective, its name is where other faults have a dim.
  using about = std::conditional_t<found.fault == fault::contract_broken, collective_named<dim>, dim_named<dim>>;
  static constexpr bool sized = found.expected != found.got;
  static constexpr auto file = text_of<found.where.name().size()>(found.where.name());
  using line_of = typename with_fact<rejected<found.fault>, found.where.line != 0, line<found.where.line>>::type;
  using where = typename with_fact<line_of, found.where.line != 0, in_file<file>>::type;
  using what = typename with_fact<where, !found.op.empty(), op_named<op>>::type;
  using which = typename with_fact<what, !found.dim.empty(), about>::type;
  using over = typename with_fact<which, !found.axis.empty(), axis_named<axis>>::type;
  using due = typename with_fact<over, sized, expected<found.expected>>::type;
  using type = typename with_fact<due, sized, got<found.got>>::type;
};

/// Reports the fault of Source, if it has one, when the member `type` is completed.
template <class Source, bool Ok = Source::found.ok()>
struct rejection_of {
  using type = rejected<fault::none>;
};
template <class Source>
struct rejection_of<Source, false> : reject<Source> {};

} // namespace detail

} // namespace cleave::inline v0
