// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The faults: the one list from which their enumeration (base/fault.hpp) and the errors of the compiler
// (base/rejected.hpp) are made. It is included after a definition of CLEAVE_FAULT and has no #pragma once.
//
//   CLEAVE_FAULT(code, sentence)
//
// A sentence names the mistake and, if possible, a remedy. The compiler prints the facts with it: the line, the
// operation, the dim or the axis. Without the pragma, g++ would add to each error how the macro is expanded.
#pragma GCC system_header

#ifndef CLEAVE_FAULT
#define CLEAVE_FAULT(...)
#endif

CLEAVE_FAULT(axis_not_in_mesh, "this axis is not in the mesh of this layout")
CLEAVE_FAULT(axis_used_twice,
             "this axis is used twice; a mesh has each axis once, and in a layout an axis shards one dim only")
CLEAVE_FAULT(dim_used_twice, "this dim appears twice in one tensor; dims of a tensor have different names")
CLEAVE_FAULT(dim_missing, "the tensor does not have this dim")
CLEAVE_FAULT(contracted_dim_missing, "dot sums over this dim, but one of its operands does not have it")
CLEAVE_FAULT(extents_differ, "this dim has two different fixed extents in one computation")
CLEAVE_FAULT(
    blocks_differ,
    "this dim has blocks of given sizes in one operand and other blocks, or equal ones, in another; declare it "
    "in one way, or rename the dim of one operand to the other one")
CLEAVE_FAULT(
    blocks_not_equal,
    "this operation needs equal blocks, and this dim has blocks of given sizes; rename it to a dim without them "
    "first")
CLEAVE_FAULT(dims_do_not_broadcast,
             "the operands do not broadcast: neither has all the dims of the other; one of them lacks this dim")
CLEAVE_FAULT(
    unreduced_into_nonlinear,
    "a value that is unreduced over this axis is used by an operation that needs the complete value; reshard it first")
CLEAVE_FAULT(assignment_to_other_dims,
             "the result and the tensor it is assigned to have different dims; this dim is only on one side")
CLEAVE_FAULT(pinned_layouts_conflict,
             "a value is constrained twice, to two different layouts of this dim; use reshard to change its layout")
CLEAVE_FAULT(element_types_differ,
             "the element types do not match, and there is no implicit conversion; use cast, or for the extent of a "
             "dim count<int>(x, dim)")
CLEAVE_FAULT(meshes_differ, "one computation uses tensors of two different meshes; write all layouts with one mesh")
CLEAVE_FAULT(contract_broken, "the plan needs a collective that the contract forbids")
CLEAVE_FAULT(workspace_too_large, "the plan needs more bytes of workspace than the contract allows")
CLEAVE_FAULT(too_many_dims, "a computation has at most 64 dims with different names")
CLEAVE_FAULT(too_many_nodes, "a computation has at most 65535 operations")
CLEAVE_FAULT(too_many_views, "a computation relates at most 64 dims by rename, split and merge")
CLEAVE_FAULT(too_many_loops, "a computation and its derivatives have at most 64 loops")
CLEAVE_FAULT(carry_changes,
             "a loop carry must keep its element type and dims; the body changes the type, or adds or drops this dim")
CLEAVE_FAULT(attention_option,
             "this kind of attention does not have this option: weights are dropped with all_scores alone, and "
             "in_spans needs a cache of keys and values")
CLEAVE_FAULT(operator_changes_type,
             "the operator, the preconditioner and the start of a solve must have the dims and the element type of its "
             "right-hand side")
CLEAVE_FAULT(not_a_count, "the number of iterations must be a rank-0 integer")
CLEAVE_FAULT(not_a_predicate, "a loop or cond predicate must be a rank-0 bool")
CLEAVE_FAULT(iterations_not_known,
             "a loop whose number of iterations is known only at run time has no derivative; use scan or custom_vjp")
CLEAVE_FAULT(rank_too_high, "a tensor has at most 8 dims")
CLEAVE_FAULT(window_open, "this dim needs a fixed extent, because the plan depends on it")
CLEAVE_FAULT(
    neighbour_too_far,
    "a stencil or a kernel reads a neighbour outside of the neighbourhood of its field: it lies farther away than the "
    "width, or on a diagonal of a star")
CLEAVE_FAULT(
    halo_of_kernel,
    "a kernel on shards reads neighbours along at most three dims, and beyond the faces of a dim those of "
    "periodic, zero_gradient, reflecting or fixed(0), the same at both faces; other conditions are the kernel's")
CLEAVE_FAULT(in_place_differs,
             "a kernel that works in place gives its first operand back: with the same element type, dims and layout")
CLEAVE_FAULT(step_too_small,
             "steps, strides, dilations and repeat counts must be at least 1, paddings and widths at least 0, and a "
             "slice must begin and end within the dim, and begin before its end")
CLEAVE_FAULT(dim_too_short, "this dim has fewer elements than are taken from it or written to it")
CLEAVE_FAULT(too_many_pieces, "too many operands: concat takes at most 6, windows at most 3")
CLEAVE_FAULT(not_a_start_index, "a dynamic start index must be a rank-0 integer")
CLEAVE_FAULT(not_an_index, "indices and labels must have an integer element type")
CLEAVE_FAULT(value_missing, "an operand or a result of the function was never given a value")
CLEAVE_FAULT(label_dims_differ,
             "labels must have the dims of the scores except the dim of the classes; they are not broadcast")
CLEAVE_FAULT(not_in_statement,
             "these arguments do not fit the function in a statement, where a plain number is known only at run time; "
             "write a number that shapes the plan as constant<1>{}")
CLEAVE_FAULT(too_many_axes, "a mesh has at most 7 axes")
CLEAVE_FAULT(axis_empty, "a mesh axis has at least one device")
CLEAVE_FAULT(extent_negative, "the extent of a dim must not be negative")
CLEAVE_FAULT(not_an_element, "this type cannot be the element of a tensor")
CLEAVE_FAULT(not_an_argument,
             "an argument or result must be a tensor, a number, or an aggregate of these (std::array, std::tuple, a "
             "struct without base classes, references and C arrays); wrap a View in a tensor")
CLEAVE_FAULT(struct_of_one_kind,
             "a struct of tensors in a signature is a template, because a body sees values in it: "
             "template <template <class, auto> class Tensor> struct weights { Tensor<float, layout> w; }")
CLEAVE_FAULT(too_many_fields, "an aggregate of tensors has at most 64 fields; nest structs or use std::array")
CLEAVE_FAULT(layouts_tie, "two layouts of this value cost the same; constrain it to choose")
CLEAVE_FAULT(result_count, "the function returns or takes a different number of tensors than is expected of it")
CLEAVE_FAULT(no_such_argument, "a gradient is taken with respect to an argument that the function does not have")
CLEAVE_FAULT(
    number_in_tree,
    "tree_map takes a function of one value from each aggregate, which returns a value, and then the "
    "aggregates; a number for all leaves belongs into the function: tree_map([](auto x) { return 0.5 * x; }, g)")
CLEAVE_FAULT(loss_not_scalar,
             "a gradient needs a loss: the first result of the function must be a rank-0 floating-point number")
CLEAVE_FAULT(not_differentiable,
             "a gradient is taken with respect to, or flows through, a value that is not a real floating-point number")
CLEAVE_FAULT(cotangent_does_not_fit, "a cotangent has other dims or another element type than its value")
CLEAVE_FAULT(captures_a_variable,
             "a function with its own derivative captures a value that the gradient depends on; make it an argument")
CLEAVE_FAULT(not_for_make,
             "make() works for gradients with respect to tensors, of functions that return the loss alone; use into()")
CLEAVE_FAULT(view_elements_differ, "the View and the tensor that wraps it have different element types")
CLEAVE_FAULT(view_out_of_reach, "the View is in memory that Kokkos' default execution space cannot access")
CLEAVE_FAULT(cyclic_dims,
             "a tensor that wraps a block-cyclic array has six dims and no partial values, and only the second and the "
             "fifth dim may be sharded")
CLEAVE_FAULT(not_a_matrix,
             "all devices compute this function of one matrix together, and this dim is none of the matrix; call it "
             "for each index of the dim")

// Operations of the user.
CLEAVE_FAULT(no_derivative, "this user-defined operation has no derivative; add one to its entry or use custom_vjp")
CLEAVE_FAULT(no_function_for_element, "this operation is not defined for this element type")
CLEAVE_FAULT(
    not_elementwise,
    "a user-defined elementwise operation must take one, two or three numbers of one type and return that type")
CLEAVE_FAULT(operand_count, "this operation was called with the wrong number of operands")
CLEAVE_FAULT(not_a_view, "a collective on shards takes Views")
CLEAVE_FAULT(not_for_complex,
             "complex numbers have no order and are not converted to real numbers implicitly; use real, imag or abs")
CLEAVE_FAULT(complex_parts, "the parts of a complex number must be float or double; use cast")
CLEAVE_FAULT(not_a_key,
             "a random key must be an integer from 0 to 2^52, and so must a number that is folded into a key")
CLEAVE_FAULT(not_a_probability,
             "a probability must be from 0 to 1, and a dropout rate must be below 1; a label that "
             "counts for nothing is ignore{-100}")
CLEAVE_FAULT(not_floating, "this operation needs real floating-point numbers; use cast")

// Mistakes of C++ in the body of a function.
CLEAVE_FAULT(captures, "a function must not capture; write [] and pass what it needs as an argument")
CLEAVE_FAULT(arguments_do_not_fit,
             "this function cannot be called with these arguments: it takes another number of them, or other types")
CLEAVE_FAULT(result_missing, "the function returns nothing; return the value that it computes")
CLEAVE_FAULT(value_as_condition,
             "a value has no number yet, so it cannot be a condition or a loop bound of C++; use select or cond, "
             "repeat_times or repeat_until")
CLEAVE_FAULT(
    tensor_as_condition,
    "a tensor of rank 0 is no condition; write s.item() for its element, or s.has_data() for whether it has one")
CLEAVE_FAULT(value_indexed,
             "a value has no elements yet, so it cannot be indexed or iterated over; use shift for a neighbour, and "
             "slice, gather or dynamic_slice for elements")
CLEAVE_FAULT(changed_in_place,
             "values and tensors are not changed in place; write x = x + y, and start a value with its first term or "
             "with zeros_like(x)")
CLEAVE_FAULT(member_of_tensor,
             "a value has no elements and no extents yet; this member belongs to tensors outside of functions; inside "
             "use count(x, row) for an extent")
CLEAVE_FAULT(not_an_operand,
             "this cannot be an operand here; in a function, operands are its values and numbers, so pass tensors, "
             "Views and other data as its arguments")
CLEAVE_FAULT(names_alone,
             "an operation has a value or a tensor as its first operand, which says the mesh, the extents and the "
             "element type: zeros_like(x), iota(x, row), sum(x, row)")
CLEAVE_FAULT(no_operator, "values and tensors have no such operator; see the list of operations")
CLEAVE_FAULT(short_circuit, "values and tensors have no && and ||; write & and |, with each comparison in parentheses")
CLEAVE_FAULT(
    larger_of_two,
    "max and min reduce over dims; for the larger or the smaller of two values write maximum(a, b) or minimum(a, b)")
CLEAVE_FAULT(standard_function,
             "functions of namespace std take numbers; write sin(x) without std::, maximum(x, y) and minimum(x, y) for "
             "the larger and the smaller of two, and s.item() for the element of a tensor of rank 0")
CLEAVE_FAULT(sizes_without_braces, "the sizes of a grid are a list, one for each axis; write grid(mesh, comm, {2, 2})")
CLEAVE_FAULT(not_a_layout,
             "a mesh consists of axes, and a layout of dims with the axes that shard them: mesh(batch / data, embed, "
             "unreduced(model))")
CLEAVE_FAULT(comma_of_names,
             "of dims or axes in parentheses, C++ keeps the last one alone; write them without: batch / data / model, "
             "sum(x, batch, embed)")
CLEAVE_FAULT(
    comparison_of_bools,
    "the result of a comparison is compared again; write (0 < x) & (x < 1), and cast<int>(b) for the number of a bool")
CLEAVE_FAULT(logic_of_numbers, "&, | and ! take bools and know no bits; compare the numbers first: (i != 0) & (x > 1)")
CLEAVE_FAULT(sum_of_bools,
             "a sum of bools would be a bool; count them with sum(cast<int>(x > 0)), or write any(x > 0) or all(x > 0)")
CLEAVE_FAULT(nothing_contracted,
             "dot without dims is an outer product, and these operands have the same dims; name those to sum over, "
             "dot(x, y, embed), or write x * y")
CLEAVE_FAULT(literal_too_long,
             "a number in a function is kept as a double, and this one has more than 53 bits; pass it to the function "
             "as an argument")
CLEAVE_FAULT(not_a_whole_number,
             "an index, a distance or a number of elements is a whole number with a sign: an int or a std::int64_t")
CLEAVE_FAULT(
    fraction_into_integers,
    "a floating-point number is written into a tensor of integers or bools; convert it first: static_cast<int>(number)")
CLEAVE_FAULT(size_not_expected, "the plan has to know a size for each dim and axis, and none is expected for this one")
CLEAVE_FAULT(size_is_fixed, "a size is given for a dim or an axis whose type fixes another one")
CLEAVE_FAULT(
    results_in_tuple,
    "results are written into tensors by into, each an argument of its own: f(x).into(a, b) in place of std::tie(a, "
    "b) = f(x) and f(x).into(std::tie(a, b))")
CLEAVE_FAULT(index_negative,
             "an index that is looked up does not count from the end; write count<int>(x, row) - 1 for the last one")
CLEAVE_FAULT(value_of_a_body,
             "a value that the body of a loop or a branch computes is used outside of it; return it from the body, and "
             "carry it from one iteration to the next")
CLEAVE_FAULT(literal_does_not_fit,
             "the operand beside this number holds integers or bools, which cannot represent it; cast the operand "
             "first: cast<float>(x) * 0.5f")
CLEAVE_FAULT(not_a_signature, "a function is planned for a signature, its result and its arguments: plan<Y(X)>(f)")
CLEAVE_FAULT(number_from_branch, "a branch of cond returns a number; return a value, such as zeros_like(x)")
CLEAVE_FAULT(branch_no_function,
             "a branch of cond is a function of the arguments that follow, cond(p, f, g, x); write select(p, x, y) for "
             "one of two values")
CLEAVE_FAULT(scan_without_dim, "scan takes the dim first and the body last: scan(time, init, inputs, body)")
CLEAVE_FAULT(dim_as_number,
             "a dim or an axis is a name and has no number; its extent is known when the function is called: count(x, "
             "batch), or x.extent(batch) of a tensor")
CLEAVE_FAULT(wrong_arguments,
             "these arguments do not fit this function; operands come first, and then dims: sum(x, row); numbers "
             "that shape the plan must be literals or constants of C++, not values")
CLEAVE_FAULT(dims_in_braces,
             "dims and operands are arguments of their own, without braces, arrays or tuples: sum(x, row, col), "
             "concat(whole, piece(x, row), piece(y, row))")
CLEAVE_FAULT(type_of_cast, "cast has one operand, and its element type is a template argument: cast<double>(x)")
CLEAVE_FAULT(operation_as_member,
             "operations are functions, not members: sum(x, row), cast<double>(x); dims have names, so nothing is "
             "transposed, and rename, split and merge take the place of reshape")
CLEAVE_FAULT(value_unpacked,
             "this is one value and no tuple; only functions that return several values, and functions of several "
             "results, are unpacked")
CLEAVE_FAULT(not_a_function,
             "a plan or a gradient takes a function of the library; wrap the lambda: constexpr cleave::function "
             "f([](auto x) { return x + 1; })")
CLEAVE_FAULT(reference_returned,
             "the function returns a reference, which may outlive what it refers to; return a value, with auto as the "
             "result type")
CLEAVE_FAULT(wrong_construction,
             "a tensor is constructed with a grid, its extents in braces, and maybe a View of its shard; write "
             "tensor(grid, {1024, 512}, view), with an unmanaged View of a pointer or a vector")
CLEAVE_FAULT(tensor_as_view, "a tensor is no View; write x.view() for the View of this device's shard")
CLEAVE_FAULT(tensor_indexed,
             "the elements of a tensor are in its shards; write x.view()(i, j) for those of this device, or "
             "x.to_global() for all; a kernel captures x.view(), since a captured tensor is a copy")
CLEAVE_FAULT(statement_as_number,
             "a statement computes nothing before it is assigned; assign it to a tensor of rank 0, tensor<float, "
             "mesh()> s(statement), and write s.item()")
CLEAVE_FAULT(written_otherwise,
             "the library has no function of this name; written_as, beside this sentence, says what to write")
CLEAVE_FAULT(not_a_fill,
             "fill takes a number, and fill_by a function of the array of a global index: x.fill_by([](const auto& at) "
             "{ return at[0] + 1.0; })")
CLEAVE_FAULT(
    not_an_option,
    "a plan takes options after the function, each an object: expect<batch, 1024>{}, without<kind::all_gather>{}")
CLEAVE_FAULT(
    types_swapped,
    "tensors of two types, with other dims, layouts or element types, do not swap their memory; move the elements "
    "by assignment: c = a, then a = b and b = c, with a tensor c of the type of a")
CLEAVE_FAULT(name_missing, "the name of a dim or an axis is a template argument, text in quotes that is not empty")
CLEAVE_FAULT(not_assignable,
             "only a statement, a tensor or a number can be assigned to a tensor; write elements through view() or "
             "fill_by, or wrap a View")

// A pass broke an invariant: a fault of the library.
CLEAVE_FAULT(internal, "a pass of the planner broke its invariants; please report this program")

#undef CLEAVE_FAULT
